#pragma once

#include <cstdint>
#include <optional>

namespace hmann {

class Matches;

enum class WalkKind : std::uint8_t { kMultiStart = 0, kBestFirst = 1, kQuantised = 2, kUpper = 3 };
constexpr std::size_t kWalks = 4;

/// How early a walk's records are asked for. Never changes an answer. On 1M SIFT vectors,
/// +300 ns, one thread of two cores, median us of a query: best-first round 112, ahead
/// 115, helper 137, off 321; quantised round 80, helper 83, ahead 88, off 101.
enum class Prefetch : std::uint8_t {
  kAhead = 0,   ///< while L1 is searched, what L0 will need first; then a step's records together
  kOff = 1,     ///< nothing ahead: each record is waited for when its turn comes
  kRound = 2,   ///< a step's records together, nothing before L0 begins
  kHelper = 3,  ///< as kAhead, but a helper thread copies into the migration space (addressable
                ///< tiers; a device does so by itself)
};

constexpr std::uint32_t kMaxEf = 1u << 20;
constexpr std::uint32_t kMaxBeamWidth = 64;
/// Of the best-first walk, whose round reads so many lists of links and then all that is
/// new in them.
constexpr std::uint32_t kMaxBestFirstWidth = 8;
constexpr std::uint32_t kMaxQueryThreads = 64;
/// Queries of one searcher that may be under way at once.
constexpr std::uint32_t kMostInFlight = 256;

/// The dials of a search as it runs: every one has a value, and they fit the index and
/// each other. SearchOptions::Resolve makes them of what a user has said; all below it
/// takes them as they are. What each of them does is said once, in DialTable().
///
/// Not an aggregate on purpose: whoever writes down a few dials writes SearchOptions.
struct Dials {
  Dials() {}  // NOLINT(modernize-use-equals-default): a defaulted one would leave an aggregate

  std::uint32_t k = 1;
  WalkKind walk = WalkKind::kBestFirst;
  std::uint32_t ef_l1 = 1;
  std::uint32_t ef_l0 = 1;  ///< of kQuantised: 0 follows no links
  std::uint32_t nprobe = 0;
  std::uint32_t beam_width = 1;
  std::optional<float> error_bound;  ///< absent: no bound on the error
  std::optional<float> epsilon;      ///< absent: ef_l0 alone says when to end
  Prefetch prefetch = Prefetch::kRound;
  std::uint32_t query_threads = 1;
  /// Only these may be answers; nullptr: all. Not owned. No dial by itself: it decides
  /// how wide the others are.
  const Matches* matches = nullptr;

  friend bool operator==(const Dials&, const Dials&) = default;
};

}  // namespace hmann
