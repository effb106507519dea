#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace hmann {

struct Neighbour {
  std::uint64_t label = 0;
  float distance = 0;
};

/// What a query found.
struct Answer {
  std::vector<Neighbour> nearest;  ///< at most k, nearest first, ties by internal id
  /// The query's budget ran out before its search was over: `nearest` is the best so far,
  /// with exact distances still, perhaps fewer than k.
  bool cut_short = false;
};

/// When a search must give up: checked by its driver every few steps.
struct SearchLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned
  /// Of each query, from its start (SearchOptions::budget); 0: as long as it takes.
  std::chrono::nanoseconds budget{0};
  /// An internal id that is searched as if it were not in the index (all walks but
  /// multi-start): that of a vector which is its own query, to learn from. None:
  /// 2^32 - 1.
  std::uint32_t excluded = 0xffffffff;
};

}  // namespace hmann
