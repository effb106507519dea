#include "index/graph/select.h"

#include <limits>

namespace hmann {
namespace {

/// Kept, or out of reach of either round.
constexpr std::uint32_t kSettled = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void NeighbourSelector::Select(std::span<const Candidate> candidates, std::uint32_t most,
                               float alpha, const LayerView& layer, std::vector<NodeId>* out) {
  out->clear();
  compared_.assign(candidates.size(), 0);
  for (const Round round : {Round::kStrict, Round::kRelaxed}) {
    if (round == Round::kRelaxed && alpha == 1) return;
    for (std::size_t i = 0; i < candidates.size() && out->size() < most; ++i) {
      if (compared_[i] == kSettled) continue;
      const Verdict verdict = Judge(candidates[i], round, alpha, layer, *out, &compared_[i]);
      if (verdict == Verdict::kKeep) out->push_back(candidates[i].id);
      if (verdict != Verdict::kLater) compared_[i] = kSettled;
    }
  }
}

NeighbourSelector::Verdict NeighbourSelector::Judge(const Candidate& candidate, Round round,
                                                    float alpha, const LayerView& layer,
                                                    const std::vector<NodeId>& kept,
                                                    std::uint32_t* compared) {
  const Kernels& kernels = *layer.kernels;
  const std::byte* row = layer.Row(candidate.id);
  while (*compared < kept.size()) {
    const DistanceKey key = kernels.one(row, layer.Row(kept[(*compared)++]), kernels.dim);
    if (key >= candidate.key) continue;
    if (alpha == 1 || alpha * kernels.ToDistance(key) < kernels.ToDistance(candidate.key))
      return Verdict::kNever;
    if (round == Round::kStrict) return Verdict::kLater;
  }
  return Verdict::kKeep;
}

}  // namespace hmann
