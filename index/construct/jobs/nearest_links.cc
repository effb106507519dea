#include "index/construct/jobs/nearest_links.h"

#include <algorithm>
#include <vector>

#include "index/graph/select.h"
#include "index/graph/visited.h"

namespace hmann {
NodeLinker::NodeLinker(std::uint32_t length, float alpha) : length_(length), alpha_(alpha) {
  batch_.Reserve(std::size_t{kRequested} * kAnswered);
}

std::span<const NodeId> NodeLinker::Choose(NodeId node, std::vector<Candidate>& candidates,
                                           const LayerView& view, const Answers& answers) {
  // A list with room already holds all there are.
  if (candidates.size() == length_) AskNeighbors(node, candidates, view, answers);
  selector_.Select(candidates, view.max_degree, alpha_, view, &selected_);
  return selected_;
}

void NodeLinker::AskNeighbors(NodeId node, std::vector<Candidate>& candidates,
                              const LayerView& view, const Answers& answers) {
  met_.Clear();
  met_.Insert(node);
  for (const Candidate& candidate : candidates) met_.Insert(candidate.id);
  batch_.size = 0;
  for (std::uint32_t i = 0; i < std::min(kRequested, length_); ++i) {
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

}  // namespace hmann
