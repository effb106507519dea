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

constexpr std::size_t kNodesPerStep = 256;

}  // namespace

NodeLinker::NodeLinker(std::uint32_t length, float alpha) : length_(length), alpha_(alpha) {
  batch_.Reserve(std::size_t{kAsked} * kAnswered);
}

std::span<const NodeId> NodeLinker::Choose(NodeId node, std::vector<Candidate>& candidates,
                                           const LayerView& view, const Answers& answers) {
  // A list with room has all there are.
  if (candidates.size() == length_) AskNeighbours(node, candidates, view, answers);
  selector_.Select(candidates, view.max_degree, alpha_, view, &selected_);
  return selected_;
}

void NodeLinker::AskNeighbours(NodeId node, std::vector<Candidate>& candidates,
                               const LayerView& view, const Answers& answers) {
  met_.Clear();
  met_.Insert(node);
  for (const Candidate& candidate : candidates) met_.Insert(candidate.id);
  batch_.size = 0;
  for (std::uint32_t i = 0; i < std::min(kAsked, length_); ++i) {
    for (const NodeId id : answers(candidates[i].id)) {
      if (!met_.Insert(id)) continue;
      PrefetchLines(view.Row(id), PrefetchBytes(*view.kernels));
      batch_.Add(id, view.Row(id));
    }
  }
  batch_.Score(*view.kernels, view.Row(node));
  batch_.Keep(candidates.back().key);
  for (std::uint32_t i = 0; i < batch_.size; ++i)
    candidates.push_back({batch_.keys[i], batch_.ids[i]});
  std::sort(candidates.begin(), candidates.end());
  candidates.resize(length_);
}

absl::Status LinkNearest(const NearestLists& nearest, NodeId count, float alpha,
                         InsertionGraph& graph, const Job& job) {
  std::vector<NodeLinker> linkers(static_cast<std::size_t>(job.pool.threads()),
                                  NodeLinker(nearest.length(), alpha));
  const LayerView view = graph.View(0);
  job.pool.ParallelFor(count, kNodesPerStep, [&](std::size_t begin, std::size_t end, int thread) {
    if (job.Cancelled()) return;
    std::vector<Candidate> candidates;
    std::vector<NodeId> first;
    const NodeLinker::Answers answers = [&](NodeId node) {
      return nearest.First(node, NodeLinker::kAnswered, &first);
    };
    for (auto node = static_cast<NodeId>(begin); node < end; ++node) {
      nearest.Read(node, &candidates);
      const std::span<const NodeId> links =
          linkers[static_cast<std::size_t>(thread)].Choose(node, candidates, view, answers);
      std::copy(links.begin(), links.end(), graph.Links(0, node));
    }
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
