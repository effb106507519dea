#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "index/dials/dials.h"

namespace hmann {

/// The mean recall that default dials aim at, where an index is calibrated.
constexpr double kDefaultRecall = 0.95;

/// What the default dials of an index give: measured on it when it was built, not fitted
/// to other data. *Effort* scales the dials that say when a walk ends (`epsilon`,
/// `ef_l0`, with cells also `nprobe` and `error_bound`) away from the constants in
/// SearchOptions::Resolve, which are effort 1.
struct Calibration {
  struct Point {
    float effort = 1;
    double recall = 0;     ///< mean over the queries
    double distances = 0;  ///< to full vectors, mean over the queries; 0: not counted
  };
  /// Of a way of searching that is the default somewhere: best-first in memory, quantised
  /// where L0 is far, from cells on a device; and of the upper layers alone, where that
  /// finds enough.
  struct Curve {
    WalkKind walk = WalkKind::kBestFirst;
    bool cells = false;
    std::uint32_t k = 1;
    std::vector<Point> points{};  ///< effort and recall rise; at least one
  };

  std::uint64_t queries = 0;
  std::string origin{};         ///< where they came from
  std::vector<Curve> curves{};  ///< of one walk, k rises

  struct Found {
    float effort = 1;
    double recall = 0;     ///< to be expected; less than was asked for where no effort reaches it
    double distances = 0;  ///< likewise; 0: not counted
  };
  /// The effort for a recall: between two that were measured on a straight line of the
  /// logarithm of the effort over the recall's odds; between two k, of the logarithm of
  /// k; beyond the last k as there. Nothing: this way was not calibrated.
  std::optional<Found> Find(WalkKind walk, bool cells, std::uint32_t k, double recall) const;

  /// Whether the upper layers alone reach the recall with no more distances than that
  /// walk needs, which reads L0 besides: so it is where the promoted nodes are most
  /// answers, as under inner product with norms that differ. No clock was looked at:
  /// whoever makes fewer distances and no slow reads is faster on any machine.
  bool UpperIsEnough(WalkKind walk, bool cells, std::uint32_t k, double recall) const;
};

}  // namespace hmann
