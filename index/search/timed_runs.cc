#include "index/search/timed_runs.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "index/base/statistics.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// How often the kernel has preempted this thread for another one.
long Preemptions() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

/// In this time a search reads about as much as a core's share of the last-level cache
/// holds.
constexpr std::chrono::milliseconds kBetweenSettings(5);

}  // namespace

TimedRuns::TimedRuns(const PlacedIndex& index, QueriesToTime queries)
    : queries_(std::move(queries)),
      executor_(MakeExecutor(index)),
      in_memory_(index.blocks == nullptr && index.cache == nullptr) {}

absl::StatusOr<Timed> TimedRuns::Run(const ResolvedParams& params, std::uint64_t first,
                                     std::uint64_t count, std::chrono::milliseconds most) {
  using Clock = std::chrono::steady_clock;
  times_.clear();
  disturbed_.clear();
  if (in_memory_) HMANN_RETURN_IF_ERROR(AnswerOthers(params, first, count));
  const Clock::time_point end = Clock::now() + most;
  for (std::uint64_t i = 0; i < count && (i == 0 || Clock::now() < end); ++i) {
    const long preempted = Preemptions();
    const Clock::time_point start = Clock::now();
    HMANN_RETURN_IF_ERROR(Answer(params, first + i));
    const std::chrono::duration<double, std::micro> time = Clock::now() - start;
    (Preemptions() == preempted ? times_ : disturbed_).push_back(time.count());
  }
  if (times_.size() < disturbed_.size())
    times_.insert(times_.end(), disturbed_.begin(), disturbed_.end());
  std::sort(times_.begin(), times_.end());
  Timed timed{.queries = count};
  const auto n = static_cast<double>(times_.size());
  for (const double time : times_) timed.mean_us += time / n;
  timed.p95_us = Percentile(times_, 0.95);
  timed.p99_us = Percentile(times_, 0.99);
  return timed;
}

/// Runs queries other than those about to be timed, so that the CPU's caches hold what
/// other queries leave there. Otherwise they hold what the same queries left at the
/// previous setting. That makes a fast setting half again as fast as it will be.
absl::Status TimedRuns::AnswerOthers(const ResolvedParams& params, std::uint64_t first,
                                     std::uint64_t count) {
  const auto end = std::chrono::steady_clock::now() + kBetweenSettings;
  for (std::uint64_t i = count; i < queries_.n && std::chrono::steady_clock::now() < end;
       ++i, ++others_)
    HMANN_RETURN_IF_ERROR(Answer(params, first + count + others_ % (queries_.n - count)));
  return absl::OkStatus();
}

absl::Status TimedRuns::Answer(const ResolvedParams& params, std::uint64_t i) {
  const std::uint64_t place = i % queries_.n;
  const SearchLimits limits = queries_.limits(place);
  absl::Status outcome;
  const auto query = [&](std::size_t) { return queries_.row(place); };
  const auto done = [&](std::size_t, const absl::Status& status, hmann::Answer&) {
    outcome = status;
  };
  HMANN_RETURN_IF_ERROR(executor_->Run({1, 1, query, params, done, nullptr, limits}));
  return outcome;
}

}  // namespace hmann
