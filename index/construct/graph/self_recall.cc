#include "index/construct/graph/self_recall.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <vector>

#include "index/base/random.h"
#include "index/construct/graph/layer_searcher.h"
#include "index/graph/layer_search.h"

namespace hmann {
namespace {

constexpr std::uint32_t kWidth = 64;

bool HasUnitLength(const Kernels& kernels, const std::byte* row, std::vector<float>* components) {
  if (!IsFloat(kernels.dtype) || kernels.metric != Metric::kL2) return false;
  components->resize(kernels.dim);
  ReadComponents(kernels.dtype, row, kernels.dim, components->data());
  const double squared =
      std::inner_product(components->begin(), components->end(), components->begin(), 0.0);
  return std::abs(std::sqrt(squared) - 1) <= 1e-3;
}

}  // namespace

SelfRecall CheckSelfRecall(
    const InsertionGraph& graph, const NodeVectors& vectors,
    const std::function<NodeId(const std::byte* query, LayerScratch& scratch)>& entry,
    std::uint64_t seed, const TaskContext& job) {
  const Kernels& kernels = graph.kernels();
  SelfRecall recall;
  recall.sample = std::min<std::uint64_t>(kSelfRecallSample, graph.nodes(0));
  std::atomic<std::uint64_t> found{0}, of_unit_length{0};
  std::vector<LayerSearcher> searchers(static_cast<std::size_t>(job.pool.threads()),
                                       LayerSearcher(graph, vectors));
  job.pool.ParallelFor(recall.sample, 16, [&](std::size_t begin, std::size_t end, int thread) {
    LayerSearcher& own = searchers[static_cast<std::size_t>(thread)];
    std::vector<float> components;
    for (std::size_t i = begin; i < end; ++i) {
      const std::byte* query = own.Query(static_cast<NodeId>(RandomBelow(seed, i, graph.nodes(0))));
      const Beam& beam = own.Run(query, entry(query, own.scratch()), kWidth);
      if (beam.key(0) <= kernels.one(query, query, kernels.dim)) ++found;
      if (HasUnitLength(kernels, query, &components)) ++of_unit_length;
    }
    job.progress.Advance(end - begin);
  });
  recall.found = found;
  recall.of_unit_length = of_unit_length;
  return recall;
}

}  // namespace hmann
