#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "index/tune/tuner.h"

namespace hmann {

/// How far times are off: |predicted / measured - 1|, or of the same setting measured
/// twice |first / second - 1|. Of settings never run.
struct ModelError {
  double median = 0, p95 = 0, worst = 0;
};

/// What a choice is worth against the best of the whole grid, both on test queries.
struct ChoiceCheck {
  Choice choice;
  double test_recall = 0, test_mean_us = 0;
  bool best_exists = false;  ///< some setting of the grid meets the target on the test queries
  std::size_t best = 0;      ///< in the grid
  double best_recall = 0, best_mean_us = 0;
  bool best_was_run = false;  ///< the model did not drop it
  /// For a recall: mean time of the choice over that of the best, less 1. For a latency:
  /// recall of the best less that of the choice.
  double regret = 0;
};

struct TuningCheck {
  std::vector<Measurement> measured;  ///< of every setting of the grid, on the test queries
  std::size_t held_out = 0;  ///< settings that the tuner did not run: those the errors are of
  ModelError work_model, paper_model;
  /// Settings that the tuner ran: median of their time now over their time then, less 1.
  /// The machine's doing, not the model's.
  double drift = 0;
  ModelError work_model_less_drift;  ///< with predictions times 1 + drift
  ModelError same_again;  ///< one half of the rounds against the other: below that, an error of a
                          ///< model means nothing
  /// The setting that the model misses most, drift taken off, and the means of its
  /// rounds.
  std::size_t worst = 0;
  double worst_low_us = 0, worst_high_us = 0;
  double pruned = 0;  ///< share of the grid that was not run
  std::vector<ChoiceCheck> choices;
};

struct TuningCheckOptions {
  std::uint64_t queries = 0;         ///< of the test set
  std::uint64_t most_queries = 600;  ///< of each setting
  int rounds = 4;                    ///< alternating over the whole grid
  double seconds = 300;  ///< for these rounds, about: where that is too little, with fewer queries
  std::function<void()> progress;  ///< called before each run; may be empty
};

/// Runs the whole grid on queries that the tuner has not seen; those that seem predicted
/// worst again, since a few of so many are measured badly; then the chosen and the best
/// few of each target, alternating; and compares. Errors: those of `measure`,
/// INVALID_ARGUMENT without queries.
absl::StatusOr<TuningCheck> CheckTuned(const Tuned& tuned, const Measure& measure,
                                       const TuningCheckOptions& options);

/// About how often CheckTuned will call `measure`.
std::uint64_t MostCheckRuns(const Tuned& tuned, const TuningCheckOptions& options);

}  // namespace hmann
