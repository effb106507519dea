#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/calibration.h"
#include "hmann/resolved_params.h"

namespace hmann {

/// The properties of an index that determine the defaults of a search and the parameters
/// that the index accepts.
struct SearchContext {
  std::uint64_t n = 0, n1 = 0, content_hash = 0;
  std::uint64_t scanned = 0;  ///< vectors that a scan visits: those that match; 0: all
  /// Vectors that may be answers where no SearchParams::matches says which; 0: all.
  std::uint64_t matching = 0;
  bool has_codes = false;
  bool block_tier = false;  ///< L0 is read from a device
  bool far = false;         ///< L0 is slower than DRAM
  /// Distances are never negative, so their ratios are meaningful.
  bool has_ratios = true;
  std::uint32_t scalar_bits = 0;  ///< bits of the scalar codes chosen at opening; 0: none
  std::uint32_t row_bytes = 0;    ///< that a distance reads; 0: unknown
  const Calibration* calibration = nullptr;  ///< of this index; nullptr: none; not owned
  std::optional<float> ef_scale = {};        ///< overrides the calibration
};

/// At most this many vectors are all compared, unless the user names parameters. It costs
/// less than what estimates are good for. The number is a guess.
constexpr std::uint64_t kFewVectors = 256;

/// The search parameters that a user sets: the number of neighbors, and either parameters
/// or a target. Parameters left out get a default that suits the index and the tier. For
/// a target, the tuned table of the index provides the parameters. ParamTable() documents
/// the effect of each parameter.
struct SearchParams {
  std::uint32_t k = 10;
  std::optional<std::uint32_t> ef_l1 = {}, ef_l0 = {};
  std::optional<SearchMode> mode = {};
  std::optional<std::uint32_t> nprobe = {}, beam_width = {};
  std::optional<float> error_bound = {}, epsilon = {};
  std::optional<Prefetch> prefetch = {};
  std::optional<std::uint32_t> query_threads = {};
  /// Only matching vectors may be answers: the k nearest of them, or all if there are
  /// fewer. Not owned.
  const Matches* matches = nullptr;
  /// Only vectors at this distance or nearer may be answers: all of them, at most k. In
  /// the unit of Neighbor::distance, so negative for a least inner product.
  std::optional<float> max_distance = {};
  /// Targets. `recall`: the mean recall to reach, in (0, 1], as fast as possible.
  /// `latency`: the mean time per query to stay within, at the best recall that it
  /// allows.
  std::optional<double> recall = {};
  std::optional<std::chrono::nanoseconds> latency = {};
  /// Time budget of each query, from its start. When it runs out, the answer is the best
  /// result so far (Answer::cut_short).
  std::optional<std::chrono::nanoseconds> budget = {};

  /// The parameters of an unfiltered search that finds enough neighbors for k of them to
  /// match, if matches are spread evenly: the same parameters with a larger k. No
  /// distance bounds it.
  SearchParams Widened(const SearchContext& context) const;
  /// Vectors that may be answers; 0: all.
  std::uint64_t Matching(const SearchContext& context) const;
  bool has_target() const { return recall.has_value() || latency.has_value(); }
  /// Whether a parameter is set that excludes a target.
  bool names_params() const;

  /// Whether a search with these options is a scan because there are few vectors and no
  /// parameter is set. It is exact.
  bool VisitsAll(const SearchContext& context) const;

  /// Checks everything that does not depend on the index: ranges, a target combined with
  /// parameters that exclude it, a parameter that the given mode does not accept. `n`:
  /// vectors of the index. Errors: INVALID_ARGUMENT that starts with the name of the
  /// field: "beam_width: expected 1 to 64, found 65".
  absl::Status Validate(std::uint64_t n) const;

  /// The parameters that will run, with defaults filled in and widths raised to hold k
  /// (section 11.f of doc/paper.md). The ef_scale scales the parameters that end the
  /// search. It is the one that reaches `recall`, or kDefaultRecall, according to the
  /// calibration; or a scan, if that is faster in DRAM. Other targets are ignored (see
  /// Index::Resolve). With matches, open parameters are resolved as those of Widened.
  ///
  /// Errors: those of Validate; INVALID_ARGUMENT for a parameter that the default mode
  /// does not accept or for matches of another index. FAILED_PRECONDITION for a request
  /// that the index cannot serve: the quantized mode without codes, `epsilon` with inner
  /// products.
  absl::StatusOr<ResolvedParams> Resolve(const SearchContext& context) const;

  bool operator==(const SearchParams&) const = default;
};

/// The curve of a calibration that applies to a search.
Calibration::Way WayOf(const ResolvedParams& params, const SearchContext& context);

/// The options that resolve to `params`, on an index and tier where these may run.
SearchParams ParamsOf(const ResolvedParams& params);

}  // namespace hmann
