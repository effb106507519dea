/// The few numbers that summarize a measurement.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hmann::eval {

/// Median absolute deviation from the median, unscaled: half of the values lie within
/// median ± MAD. Requires at least one value.
double Mad(const std::vector<double>& values);

/// One setting of a system: its recall and speed.
struct OperatingPoint {
  double recall = 0;  ///< in [0, 1]
  double qps = 0;
};

/// The points that no other beats in both, without duplicates. Returns indices, recall
/// ascending and hence QPS descending.
std::vector<std::size_t> ParetoFront(std::span<const OperatingPoint> points);

/// A value at a recall between two measured points, or at the lowest recall if nothing
/// was measured below the target.
struct AtRecall {
  double value = 0;
  double recall = 0;  ///< the target, or the curve's lowest recall if that is higher
};

/// Interpolates log(value) linearly over -log(1 - recall), the scale on which such curves
/// are nearly straight; next to a 0, the value itself. `recalls` ascend, `values` are not
/// negative, and both have equal length. A target below the curve gives its first point:
/// that setting reaches the target, and nothing faster was measured. nullopt if the curve
/// ends below the target or is empty.
///
/// `resolution`: the smallest share of misses that the run could show, 1 / (queries * k).
/// Recall 1 counts as half of it missed.
std::optional<AtRecall> InterpolateAtRecall(std::span<const double> recalls,
                                            std::span<const double> values, double target,
                                            double resolution);

}  // namespace hmann::eval
