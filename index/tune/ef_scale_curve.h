#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/search_params.h"
#include "index/params/ef_scale.h"
#include "index/tune/counting.h"
#include "index/tune/learning_set.h"

namespace hmann {

/// Recall as a function of ef_scale for one search setting, measured on demand.
class EfScaleCurve {
 public:
  struct Point {
    double ef_scale = 1;
    Counted counted;
  };
  using Run = std::function<absl::StatusOr<Counted>(double ef_scale)>;

  /// The highest ef_scale that Reach tries.
  static constexpr double kMost = 32;

  /// `answers`: neighbors that all queries of a run search for in total. `scan`:
  /// distances and estimates a query from which on no higher ef_scale is tried. `least`:
  /// the lowest that is.
  EfScaleCurve(Run run, double answers, double scan = std::numeric_limits<double>::infinity(),
               double least = kLeastScale)
      : run_(std::move(run)), answers_(answers), scan_(scan), least_(least) {}

  /// Finds a point whose recall is at least `recall`, and less than `recall` +
  /// `tolerance` where the parameters can be set that finely. `guess`: an ef_scale that
  /// may be near; 0: none. `brackets`: two runs more look for one below whose recall is
  /// more than `recall` - `tolerance`, so that what lies between can be interpolated.
  /// Returns nullopt if no ef_scale reaches it. Errors: those of the run.
  absl::StatusOr<std::optional<Point>> Reach(double recall, double tolerance, double guess = 0,
                                             bool brackets = false);

  /// Measures a point. Errors: those of the run.
  absl::Status At(double ef_scale);

  /// Every measured point, ef_scale ascending.
  const std::vector<Point>& points() const { return points_; }

 private:
  const Point* Lowest(double recall) const;   ///< the lowest ef_scale that reaches it
  const Point* Highest(double recall) const;  ///< the highest below that; it does not
  double Guess(double recall, double guess) const;
  bool Saturated(double recall) const;

  Run run_;
  double answers_, scan_, least_;
  std::vector<Point> points_;
};

/// How far the kth neighbors of learning queries are, and how much more effort the far
/// ones take (Calibration::Difficulty).
class DifficultyOfQueries {
 public:
  /// `learning` has the neighbors' distances.
  DifficultyOfQueries(const LearningSet& learning, std::uint32_t k);

  /// The median distance of the kth neighbor; 0 if there is none.
  float typical() const { return typical_; }

  /// Between the distances of the near and the far third. If there are two kinds of
  /// queries, the median is near the one or the other.
  float middle() const { return static_cast<float>((near_.distance + far_.distance) / 2); }

  /// Calibration::Difficulty::rise for graph search. `runs`: of the learning set, on the
  /// index of `context`. 0 where no epsilon makes up for the distance. Errors: those of
  /// the runs.
  absl::StatusOr<float> MeasureRise(const SearchContext& context, CountingRuns& runs) const;

 private:
  struct Third {
    std::vector<std::uint64_t> queries;
    double distance = 0;  ///< mean of the kth neighbors
  };

  absl::StatusOr<std::optional<double>> EpsilonFor(const Third& third, const SearchContext& context,
                                                   CountingRuns& runs) const;

  const std::uint32_t k_;
  float typical_ = 0;
  Third near_, far_;
};

}  // namespace hmann
