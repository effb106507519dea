#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/dials/dials.h"
#include "index/format/target.h"
#include "index/tune/cost_model.h"

namespace hmann {

/// Some queries run once at one setting.
struct Sample {
  std::vector<float> recalls;  ///< of each query
  double mean_us = 0, p95_us = 0, p99_us = 0;
  Counters counters;          ///< sum over `counted` queries
  std::uint64_t counted = 0;  ///< at least 1
};

/// Runs learning queries first, first + 1, ... (`count` of them, numbers modulo the size
/// of the set) at a setting.
using Measure = std::function<absl::StatusOr<Sample>(const Dials& dials, std::uint64_t first,
                                                     std::uint64_t count)>;

/// Rounds of a setting as one: times are medians over them, recalls over all queries.
/// Requires a round with a query.
Measurement CombineSamples(const std::vector<Sample>& rounds);

struct TunerOptions {
  std::vector<Target> targets;        ///< measured to the end
  std::uint64_t queries = 0;          ///< of the learning set; at least 1
  std::uint64_t first_queries = 300;  ///< with which settings are compared before the last round
  double most_measured = 0.18;        ///< share of the grid that may be run
  double z = 1.645;  ///< standard errors between a mean recall and its lower bound: one-sided 95 %
  CostPriors priors;
  std::function<void()> progress;  ///< called before each run; may be empty
};

/// What became of a setting of the grid.
enum class Fate : std::uint8_t {
  kDropped = 0,   ///< never run: the model says that it breaks the limits or that others are better
  kSeed = 1,      ///< run to fit the model
  kKept = 2,      ///< run because the model could not rule it out
  kFinalist = 3,  ///< run on all learning queries
};

struct TriedSetting {
  Dials dials;
  Fate fate = Fate::kDropped;
  Prediction predicted;  ///< by the last model
  Measurement measured;  ///< queries = 0: never run
  double recall_low = 0;
};

struct Choice {
  Target target;
  std::size_t setting = 0;  ///< in `settings`
  bool met = false;         ///< otherwise: the best that can be done
};

struct Tuned {
  WorkModel model;  ///< as it was when the last settings were dropped
  PaperModel paper;
  std::vector<TriedSetting> settings;  ///< the grid, in its order
  std::vector<Choice> choices;         ///< one for each target
  std::vector<std::size_t>
      front;  ///< finalists that no other beats in both time and recall, mean_us ascending
};

/// Mean recall less z standard errors, over queries; one query that finds half as much is
/// added, so that a few perfect answers prove little.
double RecallLowerBound(const Measurement& measured, double z);

/// Finds the fastest setting of a grid for each target without running most of it.
///
/// A few settings that cover each family of dials are run on the first queries, several
/// rounds alternating; the model (cost_model.h) is fitted to them and drops,
/// analytically, what cannot be the best for any target; the most promising of the rest
/// are run, and so on until nothing is left that could win or the share `most_measured`
/// is used up. The finalists are run on all queries, alternating again. A time is the
/// median over rounds of a round's mean, a recall the mean over all queries seen. Besides
/// `targets` the tuner follows recalls 0.8 to 0.995, so that `front` answers any target
/// later. Errors: INVALID_ARGUMENT (no queries, an empty grid, a target out of range),
/// and those of `measure`.
absl::StatusOr<Tuned> TuneDials(const std::vector<Dials>& grid, const Measure& measure,
                                const TunerOptions& options);

}  // namespace hmann
