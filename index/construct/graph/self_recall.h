#pragma once

#include <cstdint>
#include <functional>

#include "index/base/task_context.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/node_vectors.h"

namespace hmann {

/// Counts how many of a sample of its own vectors a graph finds when it searches for them
/// (ties count).
struct SelfRecall {
  std::uint64_t sample = 0, found = 0;
  std::uint64_t of_unit_length = 0;  ///< floats under L2 whose norm is within 1e-3 of 1
  double share() const { return static_cast<double>(found) / static_cast<double>(sample); }
};

constexpr std::uint64_t kSelfRecallSample = 1000;

/// Searches L0 for vectors of `graph`, which `vectors` holds, drawn with `seed`. Each
/// search starts at the node `entry(query)` and has a beam of moderate width. `entry`
/// gets scratch of the calling thread; several threads call it.
SelfRecall CheckSelfRecall(
    const InsertionGraph& graph, const NodeVectors& vectors,
    const std::function<NodeId(const std::byte* query, LayerScratch& scratch)>& entry,
    std::uint64_t seed, const TaskContext& job);

}  // namespace hmann
