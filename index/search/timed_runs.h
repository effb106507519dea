#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/answer.h"
#include "index/search/executor.h"

namespace hmann {

/// Times in microseconds of some queries at a setting, one at a time.
struct Timed {
  std::uint64_t queries = 0;
  double mean_us = 0, p95_us = 0, p99_us = 0;
};

/// Queries 0 .. n - 1, and the limits of each.
struct QueriesToTime {
  std::uint64_t n = 0;
  std::function<const void*(std::uint64_t)> row;
  std::function<SearchLimits(std::uint64_t)> limits;
};

/// Runs queries in the calling thread and times them.
class TimedRuns {
 public:
  TimedRuns(const PlacedIndex& index, QueriesToTime queries);

  /// Runs queries first, first + 1, ... (`count` of them, numbers modulo n), at least
  /// one, until `most` is over. If L0 is in memory, other queries run before them for
  /// 5 ms, so that the CPU's caches are as in a steady stream of queries. Queries during
  /// which the kernel gave the core to another thread are dropped, unless they are most.
  /// This measures the setting, not other load on the machine. Errors: those of searches.
  absl::StatusOr<Timed> Run(const ResolvedParams& params, std::uint64_t first, std::uint64_t count,
                            std::chrono::milliseconds most = std::chrono::hours(24));

 private:
  absl::Status AnswerOthers(const ResolvedParams& params, std::uint64_t first, std::uint64_t count);
  absl::Status Answer(const ResolvedParams& params, std::uint64_t i);

  const QueriesToTime queries_;
  const std::unique_ptr<Executor> executor_;
  const bool in_memory_;
  std::uint64_t others_ = 0;
  std::vector<double> times_, disturbed_;
};

}  // namespace hmann
