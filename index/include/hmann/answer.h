#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace hmann {

struct Neighbor {
  std::uint64_t label = 0;
  float distance = 0;
};

/// The result of one query.
struct Answer {
  std::vector<Neighbor> nearest;  ///< at most k, nearest first, ties by internal id
  /// The query ran out of budget before its search finished. `nearest` then holds the
  /// best candidates so far, with exact distances, and possibly fewer than k.
  bool cut_short = false;
};

/// Conditions that stop a search early. The executor checks them every few steps.
struct SearchLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned
  /// Time budget of each query, from its start (SearchParams::budget); 0: no limit.
  std::chrono::nanoseconds budget{0};
  /// An internal id that the search treats as absent from the index (all modes except
  /// multi-start). A vector that is its own learning query is excluded this way. None:
  /// 2^32 - 1.
  std::uint32_t excluded = 0xffffffff;
  /// Whether to count distinct reads (Counters::node_reads, node_bytes), which takes a
  /// set of all nodes that were read.
  bool distinct_reads = true;
};

}  // namespace hmann
