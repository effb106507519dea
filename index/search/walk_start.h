#pragma once

#include <cstdint>

#include "index/dials/dials.h"
#include "index/graph/layer_search.h"
#include "index/search/placed_index.h"
#include "index/search/walk.h"

namespace hmann {

/// What a walk begins with; all of it is kept until the walk is done.
struct WalkStart {
  const PlacedIndex& index;
  const std::byte* query;  ///< in stored form
  const Dials& dials;
  /// Shared by the walks of a query, one after the other. beam: what was found so far, nearest first; visited: what was met on the way.
  LayerScratch& scratch;
  WalkCounters& counters;
  std::uint32_t threads = 1;  ///< that may walk side by side
};

/// A walk through L0, as the dials name it. It opens with what L1 has found. What it finds is in scratch.beam (kLeavesBeam), or is handed
/// to ForResults(add) as add(beam), as often as somebody asks; Finish is called once, when it is over.
template <typename W>
concept L0Walk = Walk<W> && requires(W walk, const WalkStart& start, void (*add)(const Beam&), WalkCounters& counters) {
  walk.Open(start);
  { W::kLeavesBeam } -> std::convertible_to<bool>;
  walk.ForResults(add);
  walk.Finish(counters);
};

}  // namespace hmann
