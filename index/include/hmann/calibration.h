#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hmann/dials.h"

namespace hmann {

/// The mean recall that default dials aim at, where an index is calibrated.
constexpr double kDefaultRecall = 0.95;

/// What the default dials of an index give: measured on it when it was built, not fitted
/// to other data. The *effort* (index/dials/effort.h) scales the constants in
/// SearchOptions::Resolve, which are effort 1.
struct Calibration {
  /// A way of searching that is the default somewhere: best-first in memory, by scalar
  /// codes where the index is opened with them, quantised where L0 is far, from cells on
  /// a device; and the upper layers alone, where that finds enough.
  struct Way {
    WalkKind walk = WalkKind::kBestFirst;
    bool cells = false;
    std::uint32_t scalar_bits = 0;
    friend auto operator<=>(const Way&, const Way&) = default;
  };
  struct Point {
    float effort = 1;
    double recall = 0;     ///< mean over the queries
    double distances = 0;  ///< to full vectors, mean over the queries; 0: not counted
  };
  struct Curve {
    Way way{};
    std::uint32_t k = 1;
    std::uint64_t queries = 0;    ///< that its recalls are means over
    std::vector<Point> points{};  ///< effort and recall rise; at least one
  };

  std::string origin{};         ///< where the queries came from
  std::vector<Curve> curves{};  ///< by way and k, ascending

  struct Found {
    float effort = 1;
    double recall = 0;     ///< to be expected; less than was asked for where no effort reaches it
    double distances = 0;  ///< likewise; 0: not counted
  };
  /// The effort for a recall: between two that were measured on a straight line of the
  /// logarithm of the effort over the recall's odds; between two k, of the logarithm of
  /// k (the effort's; of a walk that epsilon ends, epsilon's itself:
  /// doc/notes/tuning.md); beyond the last k as there. A way with scalar codes that has
  /// no curve goes by that without. Nothing: this way was not calibrated.
  std::optional<Found> Find(const Way& way, std::uint32_t k, double recall) const;

  /// Whether the upper layers alone reach the recall with no more distances than that
  /// way needs, which reads L0 besides: so it is where the promoted nodes are most
  /// answers, as under inner product with norms that differ. No clock was looked at:
  /// whoever makes fewer distances and no slow reads is faster on any machine.
  bool UpperIsEnough(const Way& way, std::uint32_t k, double recall) const;
};

}  // namespace hmann
