#pragma once

#include <array>

namespace hmann {

/// A stage of joining a layer by leaves: the artifacts that its jobs make, and those of
/// earlier stages that they read. Artifacts that no later stage reads are removed when
/// the stage is done.
struct LayerStage {
  const char* name;
  std::array<const char*, 2> makes = {}, reads = {};
  /// Only a range's own job reads its part of the last of `reads`.
  bool by_range = false;
};

/// In order; the last two are for L0 alone. The leaf stage has jobs by group and the
/// backbone is one job. Every other stage has one job per range of nodes.
inline constexpr LayerStage kLayerStages[] = {
    {"lead", {"lead"}},            // leaders of each vector
    {"near", {"near"}, {"lead"}},  // the same in the order of nodes
    {"leaves", {"leaves"}, {"near"}},
    // the nearest; `rest`: those that only the node itself reads
    {"lists", {"lists", "rest"}, {"leaves"}},
    {"links", {"links", "ways"}, {"lists", "rest"}, true},  // and where they lead in other ranges
    {"back", {"back"}, {"ways", "links"}, true},
    {"backbone", {"hubs"}},
    {"final", {"final"}, {"hubs", "back"}, true},
};
constexpr std::size_t kStagesOfL1 = 6;

}  // namespace hmann
