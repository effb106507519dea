#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/hmann.h"
#include "index/tune/learning_set.h"

namespace hmann {

/// Times in microseconds of some queries at a setting, one at a time.
struct Timed {
  std::uint64_t queries = 0;
  double mean_us = 0, p95_us = 0, p99_us = 0;
};

/// Runs learning queries in the calling thread and times them.
class TimedRuns {
 public:
  /// `learning` must outlive it.
  TimedRuns(const std::shared_ptr<const Index>& index, const LearningSet& learning);

  /// Runs queries first, first + 1, ... (`count` of them, numbers modulo the size of the
  /// set). If L0 is in memory, other queries run before them for 5 ms, so that the CPU's
  /// caches are as in a steady stream of queries. Queries during which the kernel gave
  /// the core to another thread are dropped, unless they are most. This measures the
  /// setting, not other load on the machine. Errors: those of Searcher::Search.
  absl::StatusOr<Timed> Run(const ResolvedParams& params, std::uint64_t first, std::uint64_t count);

 private:
  absl::Status AnswerOthers(const ResolvedParams& params, std::uint64_t first, std::uint64_t count);

  const LearningSet& learning_;
  Searcher searcher_;
  const bool in_memory_;
  std::uint64_t others_ = 0;
  Answer answer_;
  std::vector<double> times_, disturbed_;
};

}  // namespace hmann
