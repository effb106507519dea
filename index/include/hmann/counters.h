#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hmann {

/// Work of one query, or the sum over some. Their names, for JSON and the wire, are
/// CounterNames().
struct Counters {
  std::uint64_t distances_fast = 0;
  std::uint64_t distances_slow = 0;
  std::uint64_t estimates = 0;
  std::uint64_t slow_reads = 0;    ///< distinct records of the slow tier
  std::uint64_t slow_touches = 0;  ///< with repeats
  std::uint64_t slow_bytes = 0;    ///< of the records that slow_reads counts
  std::uint64_t rounds = 0;  ///< steps that had to wait for slow records, of all beams together; on
                             ///< a block tier, that did wait
  std::uint64_t migrated = 0;       ///< parts of records (a read of a block tier) that were fetched
                                    ///< ahead while L1 was searched
  std::uint64_t migrated_used = 0;  ///< of these: wanted afterwards
  std::uint64_t migrated_late =
      0;  ///< of the used: not there yet when they were wanted, as far as can be told
  std::uint64_t io_reads = 0;  ///< reads from a block tier
  std::uint64_t io_bytes = 0;
  std::uint64_t cache_hits = 0;  ///< records (blocks, on a block tier) that the cache had
  std::uint64_t expanded_l1 = 0;
  std::uint64_t expanded_l0 = 0;

  Counters& operator+=(const Counters& other);
};

/// Every counter and the name that users know it by, in the order in which they are
/// printed.
struct CounterName {
  std::string_view name;
  std::uint64_t Counters::*value;
};
std::span<const CounterName> CounterNames();

}  // namespace hmann
