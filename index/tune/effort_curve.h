#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "index/tune/counting.h"

namespace hmann {

/// Recall by effort of one way of searching, measured where it is asked for.
class EffortCurve {
 public:
  struct Point {
    double effort = 1;
    Counted counted;
  };
  using Run = std::function<absl::StatusOr<Counted>(double effort)>;

  /// Efforts beyond which nothing is looked for.
  static constexpr double kLeast = 1.0 / 16, kMost = 32;

  /// `answers`: neighbours that a run looks for, of all its queries.
  EffortCurve(Run run, double answers) : run_(std::move(run)), answers_(answers) {}

  /// A point whose recall is at least `recall`, and less than `recall` + `tolerance`
  /// where the dials can be set so finely. `guess`: an effort that may be near; 0: none.
  /// Nothing where no effort reaches it. Errors: those of the run.
  absl::StatusOr<std::optional<Point>> Reach(double recall, double tolerance, double guess = 0);

  /// Measures a point. Errors: those of the run.
  absl::Status At(double effort);

  /// Every point that was measured, effort ascending.
  const std::vector<Point>& points() const { return points_; }

 private:
  const Point* Lowest(double recall) const;   ///< the least effort that reaches it
  const Point* Highest(double recall) const;  ///< the most below that which does not
  double Guess(double recall, double guess) const;
  bool Saturated(double recall) const;

  Run run_;
  double answers_;
  std::vector<Point> points_;
};

}  // namespace hmann
