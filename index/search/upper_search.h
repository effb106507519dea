#pragma once

#include <algorithm>

#include "index/base/status_macros.h"
#include "index/graph/layer_search.h"
#include "index/search/drivers.h"
#include "index/search/options.h"
#include "index/search/placed_index.h"

namespace hmann {

/// Counts the work of the upper layers into a walk's counters, and tells `ahead` (Stepped(beam, window)) of each step in L1.
template <typename WalkCounterType, typename Ahead>
struct UpperObserver {
  WalkCounterType& counters;
  Ahead* ahead = nullptr;  ///< of L1 only
  std::uint32_t window = 0;

  void Distances(std::size_t n) {
    if constexpr (WalkCounterType::kCounts) counters.total.distances_fast += n;
  }
  void Expanded() {
    if constexpr (WalkCounterType::kCounts) counters.total.expanded_l1 += window > 0 ? 1 : 0;
  }
  void Stepped(const Beam& beam) {
    if constexpr (Ahead::kManaged) {
      if (ahead != nullptr) ahead->Stepped(beam, window);
    }
  }
};

/// Algorithm 2 down to L1: scratch.beam holds what L1 found, the nearest ef_l1 of it being W. Requires n1 > 0 and resolved options.
/// Errors: those of `stop`.
template <typename WalkCounterType, typename Ahead>
absl::Status SearchUpperLayers(const PlacedIndex& index, const std::byte* query, const SearchOptions& options, LayerScratch& scratch,
                               WalkCounterType& counters, Ahead& ahead, StopCheck& stop) {
  constexpr std::uint64_t kStepsBetweenChecks = 64;
  UpperObserver<WalkCounterType, Ahead> above{counters};
  NodeId entry = 0;
  for (std::uint32_t layer = index.layers.top(); layer >= 2; --layer) {
    entry = GreedySearch(index.upper[layer - 1], query, entry, scratch, above);
  }
  UpperObserver<WalkCounterType, Ahead> in_l1{counters, options.ef_l0 > 0 ? &ahead : nullptr, options.ef_l1};
  // A pool keeps what L1 scored beyond its efSearchL1 candidates: it costs nothing and spares L0 the distances.
  std::uint32_t width = options.ef_l1;
  if (options.walk != Walk::kBeams) width = std::max(width, static_cast<std::uint32_t>(options.ef_l0));
  if (options.walk == Walk::kGated) width = std::max({width, options.k, static_cast<std::uint32_t>(options.cells)});
  OpenBeam(index.upper[0], query, entry, width, scratch, in_l1);
  if (stop.idle()) {
    SearchLayer(index.upper[0], query, options.ef_l1, scratch, in_l1);
    return absl::OkStatus();
  }
  while (!SearchLayer(index.upper[0], query, options.ef_l1, scratch, in_l1, kStepsBetweenChecks)) HMANN_RETURN_IF_ERROR(stop.Now());
  return absl::OkStatus();
}

}  // namespace hmann
