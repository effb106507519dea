#include "index/construct/near_rows.h"

#include <numeric>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/join.h"
#include "index/construct/nearest_lists.h"
#include "index/construct/partition.h"
#include "index/construct/vectors.h"

namespace hmann {

absl::StatusOr<std::vector<std::uint32_t>> NearRows(const VectorFile& file, std::uint32_t k,
                                                    const Job& job) {
  constexpr std::uint64_t kSeed = 1;
  HMANN_ASSIGN_OR_RETURN(const Kernels kernels,
                         ChooseKernels(file.dtype(), Metric::kL2, file.dim()));
  HMANN_ASSIGN_OR_RETURN(StoredVectors vectors, LoadVectors(file, kernels, job));
  const auto n = static_cast<NodeId>(file.n());
  std::vector<std::uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  HMANN_ASSIGN_OR_RETURN(Partition partition,
                         Partition::Make(vectors, kernels, all, PartitionFor(n, kSeed), job));
  const std::vector<std::uint32_t> row_of = partition.order();  // [place]
  HMANN_ASSIGN_OR_RETURN(vectors, GatherVectors(vectors, row_of, job.pool));
  HMANN_ASSIGN_OR_RETURN(NearestLists lists, NearestLists::Make(n, k));
  job.progress.Start("near rows", partition.memberships(), "vectors");
  HMANN_RETURN_IF_ERROR(JoinLeaves(std::move(partition), vectors, kernels, lists, job));
  job.progress.Finish();
  std::vector<std::uint32_t> near(std::size_t{n} * k, kNoRow);
  std::vector<NodeId> places;
  for (NodeId place = 0; place < n; ++place) {
    std::uint32_t* of_row = near.data() + std::size_t{row_of[place]} * k;
    for (const NodeId other : lists.First(place, k, &places)) *of_row++ = row_of[other];
  }
  return near;
}

}  // namespace hmann
