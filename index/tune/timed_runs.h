#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/hmann.h"
#include "index/tune/learning_set.h"

namespace hmann {

/// Times of some queries at a setting, one at a time, microseconds.
struct Timed {
  std::uint64_t queries = 0;
  double mean_us = 0, p95_us = 0, p99_us = 0;
};

/// Runs learning queries in the calling thread and looks at the clock.
class TimedRuns {
 public:
  /// `learning` must outlive it.
  TimedRuns(const std::shared_ptr<const Index>& index, const LearningSet& learning);

  /// Queries first, first + 1, ... (`count` of them, numbers modulo the size of the set),
  /// others before them for 5 ms where L0 is memory, so that the CPU's caches hold what a
  /// steady stream of queries leaves in them. Queries during which the kernel gave the
  /// core to another thread are left out, unless they are most: it is the setting that is
  /// measured, not who else is busy on the machine. Errors: those of Searcher::Search.
  absl::StatusOr<Timed> Run(const Dials& dials, std::uint64_t first, std::uint64_t count);

 private:
  absl::Status AnswerOthers(const Dials& dials, std::uint64_t first, std::uint64_t count);

  const LearningSet& learning_;
  Searcher searcher_;
  const bool in_memory_;
  std::uint64_t others_ = 0;
  Answer answer_;
  std::vector<double> times_, disturbed_;
};

}  // namespace hmann
