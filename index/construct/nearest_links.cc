#include "index/construct/nearest_links.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

#include "index/base/status_macros.h"
#include "index/construct/reverse_links.h"
#include "index/graph/select.h"
#include "index/graph/visited.h"

namespace hmann {
namespace {

// Measured on one million SIFT vectors (doc/paper.md, 12.h): elsewhere a guess.
constexpr std::uint32_t kAsked = 12;     ///< neighbours whose lists are read, the nearest
constexpr std::uint32_t kAnswered = 12;  ///< of each list, the nearest
constexpr std::size_t kNodesPerStep = 256;

/// Chooses the links of nodes; one per thread.
class NearestLinker {
 public:
  NearestLinker(const NearestLists& nearest, float alpha, InsertionGraph& graph)
      : nearest_(&nearest), alpha_(alpha), graph_(&graph), view_(graph.View(0)) {
    batch_.Reserve(std::size_t{kAsked} * kAnswered);
  }

  void Link(NodeId node) {
    nearest_->Read(node, &candidates_);
    // A list with room has all there are.
    if (candidates_.size() == nearest_->length()) AskNeighbours(node);
    selector_.Select(candidates_, view_.max_degree, alpha_, view_, &selected_);
    std::copy(selected_.begin(), selected_.end(), graph_->Links(0, node));
  }

 private:
  /// Neighbours' neighbours that are nearer than the farthest candidate take its place.
  void AskNeighbours(NodeId node) {
    met_.Clear();
    met_.Insert(node);
    for (const Candidate& candidate : candidates_) met_.Insert(candidate.id);
    batch_.size = 0;
    for (std::uint32_t i = 0; i < std::min(kAsked, nearest_->length()); ++i) {
      for (const NodeId id : nearest_->First(candidates_[i].id, kAnswered, &answers_)) {
        if (!met_.Insert(id)) continue;
        PrefetchLines(view_.Row(id), PrefetchBytes(*view_.kernels));
        batch_.Add(id, view_.Row(id));
      }
    }
    batch_.Score(*view_.kernels, view_.Row(node));
    batch_.Keep(candidates_.back().key);
    for (std::uint32_t i = 0; i < batch_.size; ++i)
      candidates_.push_back({batch_.keys[i], batch_.ids[i]});
    std::sort(candidates_.begin(), candidates_.end());
    candidates_.resize(nearest_->length());
  }

  const NearestLists* nearest_;
  float alpha_;
  InsertionGraph* graph_;
  LayerView view_;
  std::vector<Candidate> candidates_;
  std::vector<NodeId> answers_, selected_;
  VisitedSet met_;
  RowBatch batch_;
  NeighbourSelector selector_;
};

}  // namespace

absl::Status LinkNearest(const NearestLists& nearest, NodeId count, float alpha,
                         InsertionGraph& graph, const Job& job) {
  std::vector<NearestLinker> linkers(static_cast<std::size_t>(job.pool.threads()),
                                     NearestLinker(nearest, alpha, graph));
  job.pool.ParallelFor(count, kNodesPerStep, [&](std::size_t begin, std::size_t end, int thread) {
    if (job.Cancelled()) return;
    for (std::size_t node = begin; node < end; ++node)
      linkers[static_cast<std::size_t>(thread)].Link(static_cast<NodeId>(node));
    job.progress.Advance(end - begin);
  });
  return job.CheckCancelled();
}

absl::Status LinkBack(NodeId count, float alpha, InsertionGraph& graph, const Job& job) {
  const std::uint32_t most = graph.max_degree(0);
  const auto for_each_link = [&](const auto& take) {
    job.pool.ParallelFor(count, kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
      for (auto node = static_cast<NodeId>(begin); node < end; ++node) {
        const NodeId* links = graph.Links(0, node);
        for (std::uint32_t i = 0; i < most && links[i] != kNoNode; ++i) take(node, links[i]);
      }
    });
  };
  // Sources by target: counted, then put into their places, which are put in order below.
  std::vector<std::uint64_t> ends(count);
  for_each_link([&](NodeId, NodeId target) {
    std::atomic_ref(ends[target]).fetch_add(1, std::memory_order_relaxed);
  });
  std::inclusive_scan(ends.begin(), ends.end(), ends.begin());
  std::vector<NodeId> sources(count == 0 ? 0 : ends.back());
  for_each_link([&](NodeId source, NodeId target) {
    sources[std::atomic_ref(ends[target]).fetch_sub(1, std::memory_order_relaxed) - 1] = source;
  });
  // Each end is where the target's sources begin, now.
  std::vector<LinkMerger> mergers(static_cast<std::size_t>(job.pool.threads()));
  job.pool.ParallelFor(count, kNodesPerStep, [&](std::size_t begin, std::size_t end, int thread) {
    if (job.Cancelled()) return;
    for (std::size_t target = begin; target < end; ++target) {
      const auto first = sources.begin() + static_cast<std::ptrdiff_t>(ends[target]);
      const auto last = target + 1 < count
                            ? sources.begin() + static_cast<std::ptrdiff_t>(ends[target + 1])
                            : sources.end();
      std::sort(first, last);
      mergers[static_cast<std::size_t>(thread)].Add(graph, 0, static_cast<NodeId>(target),
                                                    {first, last}, alpha, most);
    }
  });
  return job.CheckCancelled();
}

}  // namespace hmann
