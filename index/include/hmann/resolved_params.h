#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace hmann {

class Matches;

enum class SearchMode : std::uint8_t {
  kMultiStart = 0,
  kGraph = 1,
  kQuantized = 2,
  kUpper = 3,
  kScan = 4,
};
constexpr std::size_t kModes = 5;

/// How early a search requests its node records. The answers never depend on it. On 1M
/// SIFT vectors, +300 ns, us per query: graph hop 130, ahead 132, off 316; quantized hop
/// 87, ahead 104, off 127 (doc/notes/dropped.md).
enum class Prefetch : std::uint8_t {
  /// While L1 is searched, the records that L0 needs first; then the records of each hop
  /// together.
  kAhead = 0,
  kOff = 1,  ///< nothing ahead: the search waits for each record at its turn
  kHop = 2,  ///< the records of a hop together; nothing before L0 starts
};

constexpr std::uint32_t kMaxEf = 1u << 20;
constexpr std::uint32_t kMaxBeamWidth = 64;
/// Limit for the graph mode. A hop reads this number of neighbor lists, then all nodes
/// that are new in them.
constexpr std::uint32_t kMaxGraphWidth = 8;
constexpr std::uint32_t kMaxQueryThreads = 64;
/// Maximum number of queries in flight per searcher.
constexpr std::uint32_t kMostInFlight = 256;

/// A walk among fewer than one match in 2^(kRankSteps - 1) is not worth its time.
constexpr std::size_t kRankSteps = 12;

/// `epsilon` as a function of the query. The farther the kth nearest that a search has
/// found, the more is missing at the same epsilon, whatever kind of query it is.
struct EpsilonLine {
  /// Below 0, a search ends before the kth nearest that it has found is certain. How far
  /// below is a guess.
  static constexpr float kLeast = -0.5f;
  float base = 0, rise = 0;
  /// For a query whose kth nearest is at this distance.
  float At(float distance) const {
    const float epsilon = base + rise * distance;
    return epsilon > kLeast ? epsilon : kLeast;
  }
  friend bool operator==(const EpsilonLine&, const EpsilonLine&) = default;
};

/// The parameters of a running search. Every parameter has a value, and the values fit
/// the index and each other. SearchParams::Resolve derives them from the user's
/// parameters; all lower layers use them unchanged. ParamTable() documents the effect of
/// each one.
///
/// Deliberately not an aggregate: code that sets a few parameters should use
/// SearchParams.
struct ResolvedParams {
  ResolvedParams() {
  }  // NOLINT(modernize-use-equals-default): a defaulted one would keep it an aggregate

  std::uint32_t k = 1;
  SearchMode mode = SearchMode::kGraph;
  std::uint32_t ef_l1 = 1;
  /// With kQuantized, 0: no links are followed. With kScan, the width of a search that
  /// takes about as long.
  std::uint32_t ef_l0 = 1;
  std::uint32_t nprobe = 0;
  std::uint32_t beam_width = 1;
  std::optional<float> error_bound;  ///< absent: no bound on the error
  std::optional<float> epsilon;      ///< absent: ef_l0 alone ends the search
  /// `epsilon` is for queries whose kth nearest is at the typical distance, and rises by
  /// `epsilon_rise` with the distance (Calibration::Difficulty). 0: the same for all.
  /// From cells without `epsilon`, `nprobe` and `ef_l0` grow with it instead.
  float epsilon_rise = 0, typical_distance = 0;
  Prefetch prefetch = Prefetch::kHop;
  std::uint32_t query_threads = 1;
  /// With `matches`, in place of `epsilon`: [i] holds where the kth match is the
  /// (k << i)th nearest of all nodes met. Where a filter suits the query, its matches are
  /// denser than their share of the index tells. With `max_distance`, [i] holds where the
  /// search ends at the (1 << i)th nearest. Empty: `epsilon` holds everywhere.
  std::array<EpsilonLine, kRankSteps> rank_epsilon = {};
  std::uint32_t rank_steps = 0;  ///< of rank_epsilon
  /// A traversal of L0 that has computed this many distances gives up, and a scan ends
  /// the search. No parameter of its own: it follows from the index.
  std::uint64_t most_distances = ~std::uint64_t{0};
  /// Only these vectors may be answers; nullptr: all. Not owned. It is not a parameter of
  /// its own, but it determines how wide the others are.
  const Matches* matches = nullptr;
  std::optional<float> max_distance;  ///< of an answer
  /// The user has named the mode scan: it compares vectors on every tier, not codes.
  bool is_exact = false;

  /// Requires `epsilon`.
  EpsilonLine Epsilon() const { return {*epsilon - epsilon_rise * typical_distance, epsilon_rise}; }

  friend bool operator==(const ResolvedParams&, const ResolvedParams&) = default;
};

}  // namespace hmann
