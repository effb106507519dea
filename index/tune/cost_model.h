/// How long a query will take: two models of the mean time of a setting of the dials,
/// fitted to a few settings that were measured.
///
/// Both are pure: they see measurements and return numbers.
///
/// The paper's (Equation 3.1) counts distances alone:
///
///     T = ef_l1 * C1 * t_fast + ceil(ef_l1 / Thr) * ef_l0 * C0 * t_slow
///
/// C1 and C0, distance computations per unit of beam in L1 and L0, are means over the
/// measured settings, from the counters. Best-first and quantised walk are one search of
/// width ef_l0, not one for each of ef_l1 candidates: there ceil(ef_l1 / Thr) is 1.
/// t_fast and t_slow, one distance with the vector in fast or slow memory, are given by
/// who measured them, or fitted.
///
/// The extended one prices all work that the counters know. In a time T a thread computes
/// and waits:
///
///     T = t_query + sum over kinds of work j of (count_j * t_j) / share_j
///
/// and at least slow_bytes / bandwidth, with t_j >= 0 for: a distance in fast memory, a
/// distance in slow memory, an estimate from a code, a node expanded in L1, a node
/// expanded in L0, a touch of a slow record, a round, a read of a device, and a move of a
/// beam's entries. A round is where the walk depends on what it asked for, hence the
/// latency of the tier: L rounds pay L each. The touches of one round are under way
/// together, P at a time (the loads that the CPU or the device has in flight), hence
/// touches pay L / P each: "loaded latency over usable parallelism". So t_round is near
/// L, t_touch near L / P, and the fit finds how near. share_j is Thr for what the threads
/// of a query divide among them (beams in L0), with ceil(ef_l1 / Thr) beams for the
/// busiest; a query with more than one thread also pays a wake-up.
///
/// The t_j are found by non-negative least squares with rows divided by the measured time
/// (so that the *relative* error counts), for each walk; a device profile may add rows
/// that draw a t_j to what it measured (its prior), weighted as one measured setting
/// each. Counts of settings that were not run are interpolated over the dials
/// (index/tune/surface.h): they grow smoothly with them. So does what the sum leaves
/// unexplained, as a factor: caches, branch prediction, the order of memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "index/dials/counters.h"
#include "index/dials/dials.h"
#include "index/tune/dial_grid.h"
#include "index/tune/surface.h"

namespace hmann {

/// A setting as it was measured over some queries.
struct Measurement {
  std::uint64_t queries = 0;
  double recall = 0;            ///< mean
  double recall_deviation = 0;  ///< standard deviation over queries
  double recall_p05 = 0;        ///< 5th percentile over queries
  double mean_us = 0, p95_us = 0, p99_us = 0;
  Counters counters;          ///< sum over `counted` of the queries
  std::uint64_t counted = 0;  ///< at least 1
};

struct Observation {
  Dials dials;
  Measurement measured;
};

/// What a prediction is made of besides measured settings; absent: fitted.
struct CostPriors {
  std::optional<double> fast_distance_ns, slow_distance_ns;  ///< also the paper's t_fast and t_slow
  std::optional<double> estimate_ns;
  std::optional<double> round_ns;  ///< of the slow tier: one dependent access
  std::optional<double> touch_ns;  ///< of the slow tier: an access with many under way
  std::optional<double> bandwidth_gb_per_s;
};

/// Equation 3.1.
class PaperModel {
 public:
  /// Observations of one index and placement.
  static PaperModel Fit(std::span<const Observation> observations, const CostPriors& priors = {});
  double PredictUs(const Dials& dials) const;

 private:
  struct PerWalk {
    double c1 = 0, c0 = 0;            ///< distances per unit of beam
    double fast_us = 0, slow_us = 0;  ///< one distance
  };
  static double Beams(const Dials& dials);
  std::array<PerWalk, kWalks> walks_;  ///< by WalkKind
};

/// Recall and time of a setting, predicted.
struct Prediction {
  double mean_us = 0;
  double recall = 0;
};

/// The extended form.
class WorkModel {
 public:
  /// Requires an observation of each family that will be asked for. Recall 1 counts as
  /// half a neighbour missed.
  static WorkModel Fit(std::span<const Observation> observations, const CostPriors& priors = {});

  Prediction Predict(const Dials& dials) const;
  /// The priced work of a setting whose work was counted, us.
  double PriceUs(const Observation& observation) const;

  /// Of the family, what leaving one setting out says of the others: standard deviation
  /// of log(time) and of logit(recall).
  double TimeError(const Dials& dials) const { return families_[DialFamily(dials)]->time_error; }
  double RecallError(const Dials& dials) const {
    return families_[DialFamily(dials)]->recall_error;
  }

 private:
  /// Kinds of work that are priced: see WorkOf.
  static constexpr std::size_t kKinds = 13;
  using Work = std::array<double, kKinds>;
  struct Family {
    std::vector<Surface> counts;  ///< of log(1 + count), in the order of CounterNames
    Surface recall;               ///< logit
    Surface rest;                 ///< log(measured / priced), over the dials and query_threads
    double time_error = 0, recall_error = 0;
  };
  static Work WorkOf(const Dials& dials, std::span<const double> counts);
  double Price(const Dials& dials, std::span<const double> counts) const;
  std::vector<double> CountsOf(const Dials& dials) const;
  void FitPrices(std::span<const Observation> observations, const CostPriors& priors,
                 WalkKind walk);
  void FitFamily(std::span<const Observation> observations, std::size_t family);

  std::array<Work, kWalks> prices_{};  ///< ns, by WalkKind
  double bandwidth_gb_per_s_ = 0;
  std::array<std::optional<Family>, kDialFamilies> families_;
};

/// The logarithm of the odds of a recall over so many queries and neighbours: the scale
/// on which recall grows evenly with the dials.
double RecallLogit(double recall, double answers);

}  // namespace hmann
