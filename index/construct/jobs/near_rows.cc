#include "index/construct/jobs/near_rows.h"

#include <numeric>

#include "index/base/status_macros.h"
#include "index/construct/graph/vectors.h"
#include "index/construct/jobs/joined_layer.h"

namespace hmann {

absl::StatusOr<std::vector<std::uint32_t>> NearRows(const VectorFile& file, std::uint32_t k,
                                                    const TaskContext& job) {
  constexpr std::uint64_t kSeed = 1;
  HMANN_ASSIGN_OR_RETURN(const Kernels kernels,
                         ChooseKernels(file.dtype(), Metric::kL2, file.dim()));
  HMANN_ASSIGN_OR_RETURN(const StoredVectors vectors, LoadVectors(file, kernels, job));
  const auto n = static_cast<NodeId>(file.n());
  std::vector<std::uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0u);
  const MemoryArtifacts work;
  std::vector<PhaseTime> times;
  Phases phases(job.progress, times);
  const NodeVectors rows = NodeVectors::InMemory(vectors, n);
  PartitionOptions partition = PartitionFor(n, kSeed);
  partition.whole = n;  // parts have no lists of the nearest
  JoinedLayer layer({.kernels = kernels,
                     .stride = vectors.stride,
                     .unique = all,
                     .copy = rows.Copier(),
                     .m = (k + 1) / 2,
                     .partition = partition},
                    Stages("near", "", work, phases, job));
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> row_of, layer.Order());
  HMANN_RETURN_IF_ERROR(layer.Make("lists", row_of, row_of));
  HMANN_ASSIGN_OR_RETURN(StoredLists lists, layer.Lists());
  HMANN_RETURN_IF_ERROR(lists.NeedRest({0, n}));
  std::vector<std::uint32_t> near(std::size_t{n} * k, kNoRow);
  std::vector<NodeId> scratch;
  for (NodeId place = 0; place < n; ++place) {
    std::uint32_t* of_row = near.data() + std::size_t{row_of[place]} * k;
    const std::uint32_t* const end = of_row + k;
    lists.ForEach(place, scratch, [&](NodeId other) {
      if (of_row != end) *of_row++ = row_of[other];
    });
  }
  return near;
}

}  // namespace hmann
