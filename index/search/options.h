#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann {

enum class Walk : std::uint8_t { kDefault = 0, kBeams = 1, kPool = 2 };
std::string_view Name(Walk walk);  ///< "default", "beams", "pool"
absl::StatusOr<Walk> ParseWalk(std::string_view name);

constexpr std::uint32_t kMaxEf = 1u << 20;

/// The dials of one query.
struct SearchOptions {
  std::uint32_t k = 10;
  std::uint32_t ef_l1 = 0;  ///< beam width in L1; 0: a sensible default for k
  std::int64_t ef_l0 = -1;  ///< width in L0; 0 answers from L1; -1: a sensible default for k
  Walk walk = Walk::kDefault;
  std::uint32_t query_threads = 1;  ///< Thr: threads of one query in L0 (`beams` only)

  /// Errors: INVALID_ARGUMENT naming the field for k = 0, k > n, a width above kMaxEf, query_threads = 0 or above 64.
  absl::Status Validate(std::uint64_t n) const;
  /// The same with every default filled in, and widths raised to hold k (section 11.f of the readings).
  SearchOptions Resolved(std::uint64_t n, std::uint64_t n1) const;
};

/// When a search must give up: checked by the driver every few steps.
struct SearchLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned
};

/// Work of one query; names as in the JSON that `hmann search` prints.
struct Counters {
  std::uint64_t distances_fast = 0;
  std::uint64_t distances_slow = 0;
  std::uint64_t sketches = 0;
  std::uint64_t slow_reads = 0;    ///< distinct records of the slow tier
  std::uint64_t slow_touches = 0;  ///< with repeats
  std::uint64_t slow_bytes = 0;    ///< of the records that slow_reads counts
  std::uint64_t rounds = 0;        ///< steps that had to wait for slow records, of all beams together
  std::uint64_t migrated = 0;
  std::uint64_t migrated_used = 0;
  std::uint64_t expanded_l1 = 0;
  std::uint64_t expanded_l0 = 0;

  Counters& operator+=(const Counters& other);
};

struct Neighbour {
  std::uint64_t label = 0;
  float distance = 0;
};

}  // namespace hmann
