/// The few numbers that a measurement is boiled down to.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hmann::eval {

/// Median absolute deviation from the median, not scaled: half of the values lie within
/// median ± MAD. Requires at least one value.
double Mad(const std::vector<double>& values);

/// One setting of a contestant: what it found and how fast.
struct OperatingPoint {
  double recall = 0;  ///< in [0, 1]
  double qps = 0;
};

/// The points that no other beats in both (a double of another point is dropped), as
/// indices, recall ascending, hence QPS descending.
std::vector<std::size_t> ParetoFront(std::span<const OperatingPoint> points);

/// A value at a recall that lies between two measured points, or at `recall` itself where
/// nothing was measured below it.
struct AtRecall {
  double value = 0;
  double recall = 0;  ///< the target, or the lowest recall of the curve if the target lies below it
};

/// log(value) over -log(1 - recall), straight between neighbouring points: the scale on
/// which such curves are nearly straight. `recalls` ascending, `values` positive, of
/// equal length. A target below the curve gives its first point: that setting does reach
/// the target, and nothing faster was measured. nullopt when the curve ends below the
/// target or is empty. `resolution`: the smallest share of misses that the run could have
/// shown, 1 / (queries * k); recall 1 is taken as half of it missed.
std::optional<AtRecall> InterpolateAtRecall(std::span<const double> recalls,
                                            std::span<const double> values, double target,
                                            double resolution);

}  // namespace hmann::eval
