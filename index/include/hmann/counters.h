#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hmann {

/// Work of one query, or the sum over several queries. CounterNames() holds the names
/// used in JSON and on the wire.
struct Counters {
  std::uint64_t distances_fast = 0;
  std::uint64_t distances_slow = 0;
  std::uint64_t estimates = 0;
  std::uint64_t node_reads = 0;     ///< distinct node records read from the slow tier
  std::uint64_t node_accesses = 0;  ///< node records used, with repeats
  std::uint64_t node_bytes = 0;     ///< bytes of the records that node_reads counts
  /// Hops that needed node records from the slow tier, summed over all threads. On a
  /// block tier, only the hops that actually waited.
  std::uint64_t hops = 0;
  /// Parts of node records (reads, on a block tier) that were prefetched while L1 was
  /// searched.
  std::uint64_t fetched_ahead = 0;
  std::uint64_t fetched_ahead_used = 0;  ///< those of `fetched_ahead` that the search used later
  /// Those of `fetched_ahead_used` that had not arrived when needed, to the extent this
  /// is known.
  std::uint64_t fetched_ahead_late = 0;
  std::uint64_t io_reads = 0;  ///< reads from a block tier
  std::uint64_t io_bytes = 0;
  /// Node records (blocks, on a block tier) found in the cache.
  std::uint64_t cache_hits = 0;
  std::uint64_t expanded_l1 = 0;
  std::uint64_t expanded_l0 = 0;
  /// Those of the part of a multi-start search that computed most distances: what its
  /// query_threads leave to wait for. For programs in C++: without names.
  std::uint64_t longest_distances = 0;
  std::uint64_t longest_accesses = 0;

  Counters& operator+=(const Counters& other);
};

/// Every counter that has one with its user-visible name, in output order.
struct CounterName {
  std::string_view name;
  std::uint64_t Counters::*value;
};
std::span<const CounterName> CounterNames();

}  // namespace hmann
