#include "index/tune/exact_search.h"

#include <algorithm>
#include <vector>

#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/graph/beam.h"

namespace hmann {
namespace {

/// Rows that stay in the second-level cache while a thread's queries are compared with
/// them.
constexpr std::size_t kRowsAtOnce = 512;

}  // namespace

absl::StatusOr<GroundTruth> ExactSearch(const IndexFile& file, std::span<const std::byte> queries,
                                        std::uint32_t k, int threads, Progress& progress) {
  const IndexInfo& info = file.info();
  HMANN_ASSIGN_OR_RETURN(const Kernels kernels, ChooseKernels(info.dtype, info.metric, info.dim));
  const std::size_t vector_bytes = info.dim * SizeOf(QueryType(info.dtype)),
                    count = queries.size() / vector_bytes;
  std::vector<std::byte> rows(count * kernels.row_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    HMANN_RETURN_IF_ERROR(
        EncodeRow(kernels, queries.data() + i * vector_bytes, rows.data() + i * kernels.row_bytes));
  }
  std::vector<Beam> best(count);
  for (Beam& beam : best) beam.Reset(k);
  const auto n = static_cast<NodeId>(info.n);
  const auto compare = [&](std::size_t begin, std::size_t end, int) {
    std::vector<const std::byte*> pointers;
    std::vector<DistanceKey> keys(kRowsAtOnce);
    for (NodeId first = 0; first < n; first += kRowsAtOnce) {
      const NodeId last = std::min<NodeId>(n, first + kRowsAtOnce);
      pointers.clear();
      for (NodeId id = first; id < last; ++id) pointers.push_back(file.Row(id));
      for (std::size_t query = begin; query < end; ++query) {
        kernels.many(rows.data() + query * kernels.row_bytes, pointers.data(), pointers.size(),
                     kernels.dim, keys.data());
        for (NodeId id = first; id < last; ++id) {
          if (keys[id - first] <= best[query].bound()) best[query].Insert(keys[id - first], id);
        }
      }
    }
    progress.Advance(end - begin);
  };
  progress.Start("exact neighbours", count, "queries");
  ThreadPool pool(threads > 0 ? threads : UsableCores());
  pool.ParallelFor(count, std::clamp<std::size_t>(count / (4 * pool.threads()), 1, 128), compare);
  progress.Finish();

  GroundTruth truth{.n = static_cast<std::uint32_t>(count), .k = k, .ids = {}, .distances = {}};
  for (const Beam& beam : best) {
    for (std::uint32_t i = 0; i < k; ++i) {
      truth.ids.push_back(file.Label(beam.id(i)));
      truth.distances.push_back(kernels.ToDistance(beam.key(i)));
    }
  }
  return truth;
}

}  // namespace hmann
