#include "index/construct/self_recall.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "index/base/random.h"
#include "index/graph/layer_search.h"

namespace hmann {
namespace {

constexpr std::uint32_t kWidth = 64;

}  // namespace

SelfRecall CheckSelfRecall(
    const LayerView& bottom,
    const std::function<NodeId(const std::byte* query, LayerScratch& scratch)>& entry,
    std::uint64_t seed, const Job& job) {
  const Kernels& kernels = *bottom.kernels;
  SelfRecall recall;
  recall.sample = std::min<std::uint64_t>(kSelfRecallSample, bottom.nodes);
  std::atomic<std::uint64_t> found{0};
  std::vector<LayerScratch> scratch(static_cast<std::size_t>(job.pool.threads()));
  job.pool.ParallelFor(recall.sample, 16, [&](std::size_t begin, std::size_t end, int thread) {
    LayerScratch& own = scratch[static_cast<std::size_t>(thread)];
    NullLayerCounters counters;
    for (std::size_t i = begin; i < end; ++i) {
      const std::byte* query = bottom.Row(static_cast<NodeId>(RandomBelow(seed, i, bottom.nodes)));
      OpenBeam(bottom, query, entry(query, own), kWidth, own, counters);
      SearchLayer(bottom, query, kWidth, own, counters);
      if (own.beam.key(0) <= kernels.one(query, query, kernels.dim)) ++found;
    }
    job.progress.Advance(end - begin);
  });
  recall.found = found;
  return recall;
}

}  // namespace hmann
