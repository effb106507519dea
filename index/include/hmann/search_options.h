#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/calibration.h"
#include "hmann/dials.h"

namespace hmann {

/// What the defaults of a query depend on, and which dials an index can take.
struct SearchContext {
  std::uint64_t n = 0, n1 = 0, content_hash = 0;
  bool has_codes = false;
  bool block_tier = false;        ///< L0 is read from a device
  bool far = false;               ///< L0 is farther than DRAM
  bool has_ratios = true;         ///< no distance is negative: one may be a multiple of another
  std::uint32_t scalar_bits = 0;  ///< of the scalar codes that it was opened with; 0: none
  bool has_helpers = true;  ///< the index was opened with helper threads, for Prefetch::kHelper
  const Calibration* calibration = nullptr;  ///< of this index; nullptr: none. Not owned
  std::optional<float> effort = {};          ///< in place of what the calibration says
};

/// What a user says of a search: how many neighbours, and either dials, of which those
/// left out get a default that suits the index and the tier, or a target, for which the
/// tuned table of the index has dials. What each dial does is said in DialTable().
struct SearchOptions {
  std::uint32_t k = 10;
  std::optional<std::uint32_t> ef_l1 = {}, ef_l0 = {};
  std::optional<WalkKind> walk = {};
  std::optional<std::uint32_t> nprobe = {}, beam_width = {};
  std::optional<float> error_bound = {}, epsilon = {};
  std::optional<Prefetch> prefetch = {};
  std::optional<std::uint32_t> query_threads = {};
  /// Only vectors that match may be answers: the k nearest of them, or all where they are
  /// fewer. Not owned.
  const Matches* matches = nullptr;
  /// Targets: the mean recall to reach, in (0, 1], as fast as may be; the mean time of a
  /// query to keep, with the best recall that it allows.
  std::optional<double> recall = {};
  std::optional<std::chrono::nanoseconds> latency = {};
  /// Of each query, from its start: then the best so far is its answer
  /// (Answer::cut_short).
  std::optional<std::chrono::nanoseconds> budget = {};

  /// Of an unfiltered search that meets so many neighbours that k of them match, if they
  /// are spread evenly: k is larger. For `n` vectors.
  SearchOptions Widened(std::uint64_t n) const;
  bool has_target() const { return recall.has_value() || latency.has_value(); }
  /// Whether a dial is said that no target goes with.
  bool names_dials() const;

  /// What is wrong whatever the index: ranges, a target beside dials that exclude it, a
  /// dial that the walk named does not take. `n`: vectors of the index. Errors:
  /// INVALID_ARGUMENT with the name of the field in front: "beam_width: expected 1 to 64,
  /// found 65".
  absl::Status Validate(std::uint64_t n) const;

  /// The dials that will run, defaults filled in and widths raised to hold k (section
  /// 11.f of doc/paper.md). What ends a walk is scaled by the effort that the calibration
  /// says reaches `recall`, or kDefaultRecall; other targets are not looked at: see
  /// Index::Resolve. Errors: those
  /// of Validate; INVALID_ARGUMENT for a dial that the default walk does not take;
  /// FAILED_PRECONDITION for what the index cannot do: the quantised walk without codes,
  /// `epsilon` over inner products, helpers that it was opened without; INVALID_ARGUMENT
  /// for matches of another index. With matches what is left open is that of Widened.
  absl::StatusOr<Dials> Resolve(const SearchContext& context) const;
};

/// Which curve of a calibration a search goes by.
Calibration::Way WayOf(const Dials& dials, const SearchContext& context);

/// The options that resolve to `dials`, on an index and tier where they may run.
SearchOptions OptionsOf(const Dials& dials);

}  // namespace hmann
