#include "index/tune/timed_runs.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/index_impl.h"

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

TimedRuns::TimedRuns(const std::shared_ptr<const Index>& index, const LearningSet& learning)
    : learning_(learning),
      searcher_(index),
      in_memory_(!index->on_block_tier() && ImplOf(*index).cache() == nullptr) {}

absl::StatusOr<Timed> TimedRuns::Run(const ResolvedParams& params, std::uint64_t first,
                                     std::uint64_t count) {
  times_.clear();
  disturbed_.clear();
  if (in_memory_) HMANN_RETURN_IF_ERROR(AnswerOthers(params, first, count));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t query = (first + i) % learning_.n();
    const long preempted = Preemptions();
    const auto start = std::chrono::steady_clock::now();
    HMANN_RETURN_IF_ERROR(
        searcher_.Search(learning_.Row(query), params, &answer_, nullptr, learning_.Limits(query)));
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
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
  for (std::uint64_t i = count; i < learning_.n() && std::chrono::steady_clock::now() < end;
       ++i, ++others_) {
    const std::uint64_t query = (first + count + others_ % (learning_.n() - count)) % learning_.n();
    HMANN_RETURN_IF_ERROR(
        searcher_.Search(learning_.Row(query), params, &answer_, nullptr, learning_.Limits(query)));
  }
  return absl::OkStatus();
}

}  // namespace hmann
