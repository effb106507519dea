#pragma once

#include <cstdint>
#include <functional>

#include "index/base/job.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/node_vectors.h"

namespace hmann {

/// How many of a sample of its own vectors a graph finds when it looks for them (ties
/// count).
struct SelfRecall {
  std::uint64_t sample = 0, found = 0;
  double share() const { return static_cast<double>(found) / static_cast<double>(sample); }
};

constexpr std::uint64_t kSelfRecallSample = 1000;

/// Searches L0 for vectors of `bottom`, which are `vectors`, drawn with `seed`, each from
/// the node `entry(query)`, with a beam of moderate width. `entry` gets scratch of its
/// own thread and is called from several.
SelfRecall CheckSelfRecall(
    const LayerView& bottom, const NodeVectors& vectors,
    const std::function<NodeId(const std::byte* query, LayerScratch& scratch)>& entry,
    std::uint64_t seed, const Job& job);

}  // namespace hmann
