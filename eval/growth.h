/// How a figure grows with the number of vectors, and what that makes of more than were
/// measured.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace hmann {

/// A figure of an index of n vectors; both positive.
struct SizedFigure {
  double n = 0, value = 0;
};

/// A curve through figures of several sizes, by least squares. Residuals: measured /
/// fitted - 1, of each size.
struct GrowthFit {
  double start = 0, slope = 0;
  std::vector<double> residuals;
  double rms = 0;  ///< of the residuals
};

/// Both curves that growth is read as.
struct Growth {
  GrowthFit logarithm;  ///< start + slope x ln n
  GrowthFit power;      ///< start x n^slope
};

/// nullopt for fewer than two sizes, or a figure that is not positive.
std::optional<Growth> FitGrowth(std::span<const SizedFigure> figures);

/// What a curve says of a size that was not measured.
struct Extrapolated {
  double value = 0;
  /// One standard error of the prediction, of the residuals and of how far off the size
  /// lies; nullopt where two sizes leave no residual. Logarithm: added and taken off.
  /// Power: a factor, above 1, either way.
  std::optional<double> error;
};
Extrapolated ExtrapolateLogarithm(std::span<const SizedFigure> figures, const GrowthFit& fit,
                                  double n);
Extrapolated ExtrapolatePower(std::span<const SizedFigure> figures, const GrowthFit& fit, double n);

}  // namespace hmann
