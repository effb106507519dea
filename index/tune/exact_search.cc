#include "index/tune/exact_search.h"

#include <vector>

#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/graph/beam.h"

namespace hmann {
namespace {

/// This many rows stay in the second-level cache while they are compared.
constexpr std::size_t kRowsAtOnce = 64;

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
  std::vector<const std::byte*> wanted(count);
  for (std::size_t i = 0; i < count; ++i) wanted[i] = rows.data() + i * kernels.row_bytes;
  ThreadPool pool(threads > 0 ? threads : UsableCores());
  // Per thread and query, so that rows are read once.
  std::vector<std::vector<Beam>> best(static_cast<std::size_t>(pool.threads()),
                                      std::vector<Beam>(count));
  for (std::vector<Beam>& beams : best)
    for (Beam& beam : beams) beam.Reset(k);
  const auto compare = [&](std::size_t begin, std::size_t end, int thread) {
    std::vector<const std::byte*> pointers;
    for (std::size_t id = begin; id < end; ++id)
      pointers.push_back(file.Row(static_cast<NodeId>(id)));
    std::vector<DistanceKey> keys(count * pointers.size());
    kernels.block(wanted.data(), count, pointers.data(), pointers.size(), kernels.dim, keys.data(),
                  pointers.size());
    for (std::size_t query = 0; query < count; ++query) {
      Beam& beam = best[static_cast<std::size_t>(thread)][query];
      const DistanceKey* of = keys.data() + query * pointers.size();
      for (std::size_t i = 0; i < pointers.size(); ++i) {
        if (of[i] <= beam.bound()) beam.Insert(of[i], static_cast<NodeId>(begin + i));
      }
    }
    progress.Advance(end - begin);
  };
  progress.Start("exact neighbors", info.n, "vectors");
  pool.ParallelFor(info.n, kRowsAtOnce, compare);
  progress.Finish();

  GroundTruth truth{.n = static_cast<std::uint32_t>(count), .k = k, .ids = {}, .distances = {}};
  for (std::size_t query = 0; query < count; ++query) {
    Beam& beam = best[0][query];
    for (std::size_t thread = 1; thread < best.size(); ++thread) {
      const Beam& more = best[thread][query];
      for (std::uint32_t i = 0; i < more.size(); ++i) beam.Insert(more.key(i), more.id(i));
    }
    for (std::uint32_t i = 0; i < k; ++i) {
      truth.ids.push_back(file.Label(beam.id(i)));
      truth.distances.push_back(kernels.ToDistance(beam.key(i)));
    }
  }
  return truth;
}

}  // namespace hmann
