#pragma once

#include <array>

namespace hmann {

/// A stage that joins a layer by leaves: artefacts that its jobs make, and that they read
/// of stages before it. What no stage after it reads is removed when it is done.
struct LayerStage {
  const char* name;
  std::array<const char*, 2> makes = {}, reads = {};
  bool by_range = false;  ///< the last that it reads is read by the same range alone
};

/// In order; the last two are of L0 alone. Leaves are by groups, the backbone is one job,
/// all else has a job for each range of nodes.
inline constexpr LayerStage kLayerStages[] = {
    {"lead", {"lead"}},            // leaders of each vector
    {"near", {"near"}, {"lead"}},  // the same in the order of nodes
    {"leaves", {"leaves"}, {"near"}},
    {"lists", {"lists", "rest"}, {"leaves"}},  // the nearest; what others do not read apart
    {"links", {"links", "ways"}, {"lists", "rest"}, true},  // and where they lead elsewhere
    {"back", {"back"}, {"ways", "links"}, true},
    {"backbone", {"hubs"}},
    {"final", {"final"}, {"hubs", "back"}, true},
};
constexpr std::size_t kStagesOfL1 = 6;

}  // namespace hmann
