#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann {

enum class Walk : std::uint8_t { kDefault = 0, kBeams = 1, kPool = 2, kGated = 3 };
std::string_view Name(Walk walk);  ///< "default", "beams", "pool", "gated"
absl::StatusOr<Walk> ParseWalk(std::string_view name);

/// How early a walk's records are asked for. Never changes an answer. On 1M SIFT vectors, +300 ns, one thread of two cores, median us of a
/// query: pool round 112, ahead 115, helper 137, off 321; gated round 80, helper 83, ahead 88, off 101.
enum class Prefetch : std::uint8_t {
  kAhead = 0,   ///< while L1 is searched, what L0 will need first; then a step's records together
  kOff = 1,     ///< nothing ahead: each record is waited for when its turn comes
  kRound = 2,   ///< a step's records together, nothing before L0 begins
  kHelper = 3,  ///< as kAhead, but a helper thread copies into the migration space (addressable tiers; else as kAhead)
};
std::string_view Name(Prefetch prefetch);  ///< "ahead", "off", "round", "helper"
absl::StatusOr<Prefetch> ParsePrefetch(std::string_view name);

constexpr std::uint32_t kMaxEf = 1u << 20;
constexpr std::uint32_t kMaxWidth = 64;
/// Of the pool walk, whose round reads so many lists of links and then all that is new in them.
constexpr std::uint32_t kMaxPoolWidth = 8;
/// Queries of one searcher that may be under way at once.
constexpr std::uint32_t kMostInFlight = 256;

/// What the defaults of a query depend on.
struct SearchContext {
  std::uint64_t n = 0, n1 = 0;
  bool has_sketches = false;
  bool has_cells = false;   ///< sketches are by hub, not by link
  bool block_tier = false;  ///< L0 is read from a device
  bool far = false;         ///< L0 is farther than DRAM
  bool has_ratios = true;   ///< no distance is negative: one may be a multiple of another
};

/// The dials of one query.
struct SearchOptions {
  std::uint32_t k = 10;
  std::uint32_t ef_l1 = 0;  ///< beam width in L1; 0: a sensible default for k
  std::int64_t ef_l0 = -1;  ///< width in L0; 0 answers from L1; -1: a sensible default for k
  Walk walk = Walk::kDefault;
  std::int64_t cells = -1;  ///< gated: cells that are scored before the first read; -1: a sensible default
  /// gated: records that a round reads. pool: candidates that are expanded together, at most kMaxPoolWidth: a few more distances, far fewer
  /// rounds to wait for. 1M SIFT vectors in DRAM, one query at a time: 2 takes 12 and 18 % less time than 1 at equal recall 0.95 and 0.99,
  /// as much where several are in flight. 0: a sensible default. beams: always 1.
  std::uint32_t width = 0;
  float stop = -1;  ///< gated: reads go on while estimate - stop * error is under the kth distance; -1: a sensible default
  /// pool, gated: no candidate is expanded that is farther than `reach` times the kth best so far (L2: squared), so that each query takes
  /// the effort that it needs, at most ef_l0. 0: ef_l0 alone says when to end; -1: a sensible default where ef_l0 is left open, else 0.
  /// 1M SIFT vectors, k = 10, at equal mean recall 0.95 / 0.99: the pool reads 14 / 23 % less, the gated walk 13 / 27 %, and the worst
  /// twentieth of the queries has better answers. With cells it gains nothing beside `stop`, and is off unless asked for.
  float reach = -1;
  Prefetch prefetch = Prefetch::kRound;  ///< what measured best on two cores; see Prefetch
  std::uint32_t query_threads = 1;       ///< Thr: threads of one query in L0 (`beams` only)

  /// Errors: INVALID_ARGUMENT naming the field for k = 0, k > n, a width above what is allowed, query_threads = 0 or above 64.
  absl::Status Validate(std::uint64_t n) const;
  /// The same with every default filled in, and widths raised to hold k (section 11.f of the readings).
  SearchOptions Resolved(const SearchContext& context) const;
  /// Of resolved options. Errors: FAILED_PRECONDITION for the gated walk on an index without sketches, and for `reach` with inner products.
  absl::Status CheckWalk(const SearchContext& context) const;
  /// Validate, Resolved and CheckWalk. Errors: theirs.
  absl::StatusOr<SearchOptions> CheckedFor(const SearchContext& context) const;

 private:
  void ResolveUngated(const SearchContext& context);
};

/// When a search must give up: checked by the driver every few steps.
struct SearchLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned
  /// Of each query, from its start: then the best so far is the answer (Searcher::cut_short). 0: as long as it takes.
  std::chrono::nanoseconds budget{0};
};

/// Work of one query; names as in the JSON that `hmann search` prints.
struct Counters {
  std::uint64_t distances_fast = 0;
  std::uint64_t distances_slow = 0;
  std::uint64_t sketches = 0;
  std::uint64_t slow_reads = 0;     ///< distinct records of the slow tier
  std::uint64_t slow_touches = 0;   ///< with repeats
  std::uint64_t slow_bytes = 0;     ///< of the records that slow_reads counts
  std::uint64_t rounds = 0;         ///< steps that had to wait for slow records, of all beams together; on a block tier, that did wait
  std::uint64_t migrated = 0;       ///< parts of records (a read of a block tier) that were fetched ahead while L1 was searched
  std::uint64_t migrated_used = 0;  ///< of these: wanted afterwards
  std::uint64_t migrated_late = 0;  ///< of the used: not there yet when they were wanted, as far as can be told
  std::uint64_t io_reads = 0;       ///< reads from a block tier
  std::uint64_t io_bytes = 0;
  std::uint64_t cache_hits = 0;  ///< records (blocks, on a block tier) that the cache had
  std::uint64_t expanded_l1 = 0;
  std::uint64_t expanded_l0 = 0;

  Counters& operator+=(const Counters& other);
};

/// Every counter and the name that users know it by, in the order of surface.md.
struct CounterName {
  std::string_view name;
  std::uint64_t Counters::*value;
};
std::span<const CounterName> CounterNames();

struct Neighbour {
  std::uint64_t label = 0;
  float distance = 0;
};

}  // namespace hmann
