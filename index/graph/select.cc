#include "index/graph/select.h"

#include <algorithm>

namespace hmann {

void NeighborSelector::Select(std::span<const Candidate> candidates, std::uint32_t most,
                              float alpha, const LayerView& layer, std::vector<NodeId>* out) {
  all_.resize(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) all_[i] = layer.Row(candidates[i].id);
  Select(candidates, all_, most, alpha, *layer.kernels, out);
}

void NeighborSelector::Select(std::span<const Candidate> candidates,
                              std::span<const std::byte* const> rows, std::uint32_t most,
                              float alpha, const Kernels& kernels, std::vector<NodeId>* out) {
  out->clear();
  kept_.clear();
  near_.clear();
  if (most == 0) return;
  free_.resize(candidates.size());
  rows_.assign(rows.begin(), rows.end());
  keys_.resize(std::max<std::size_t>(candidates.size(), kAtOnce));
  for (std::uint32_t i = 0; i < candidates.size(); ++i) free_[i] = i;
  while (!free_.empty()) {
    out->push_back(candidates[free_.front()].id);
    kept_.push_back(rows_.front());
    if (out->size() == most) return;
    DropShadowed(candidates, alpha, kernels);
  }
  std::sort(near_.begin(), near_.end());
  for (const Near& near : near_) {
    const Candidate& candidate = candidates[near.candidate];
    const std::byte* row = rows[near.candidate];
    if (IsBeyond(row, candidate.key, near.compared, alpha, kernels)) continue;
    out->push_back(candidate.id);
    kept_.push_back(row);
    if (out->size() == most) return;
  }
}

void NeighborSelector::DropShadowed(std::span<const Candidate> candidates, float alpha,
                                    const Kernels& kernels) {
  kernels.many(kept_.back(), rows_.data() + 1, free_.size() - 1, kernels.dim, keys_.data());
  std::size_t left = 0;
  for (std::size_t f = 1; f < free_.size(); ++f) {
    const std::uint32_t i = free_[f];
    const bool is_free = keys_[f - 1] >= candidates[i].key;
    if (!is_free && alpha > 1 && !Beyond(keys_[f - 1], candidates[i].key, alpha, kernels))
      near_.push_back({i, static_cast<std::uint32_t>(kept_.size())});
    free_[left] = i;
    rows_[left] = rows_[f];
    left += is_free ? 1 : 0;
  }
  free_.resize(left);
}

bool NeighborSelector::IsBeyond(const std::byte* row, DistanceKey to_node, std::uint32_t compared,
                                float alpha, const Kernels& kernels) {
  for (std::size_t next = compared; next < kept_.size(); next += kAtOnce) {
    const std::size_t n = std::min(kAtOnce, kept_.size() - next);
    kernels.many(row, kept_.data() + next, n, kernels.dim, keys_.data());
    for (std::size_t i = 0; i < n; ++i)
      if (keys_[i] < to_node && Beyond(keys_[i], to_node, alpha, kernels)) return true;
  }
  return false;
}

}  // namespace hmann
