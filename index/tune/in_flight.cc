#include "index/tune/in_flight.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "index/base/clock.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr int kInFlightRounds = 3;
constexpr std::uint32_t kMostInMemory = 16, kMostOnADevice = 64;
/// Queries per run: enough that the first and last ones, with fewer others in flight,
/// weigh little.
constexpr std::uint64_t kQueries = 400;
/// Numbers closer than this count as equal. It is about the variation of a setting on a
/// quiet machine, a guess.
constexpr double kAsGood = 0.98;

}  // namespace

absl::StatusOr<InFlight> MeasureInFlight(const std::shared_ptr<const Index>& index,
                                         const LearningSet& learning, const ResolvedParams& params,
                                         const std::atomic<bool>* cancelled) {
  SearchLimits limits;
  limits.cancelled = cancelled;
  Searcher searcher(index);
  const std::uint64_t count = std::min(learning.n(), kQueries);
  std::uint64_t first = 0;
  absl::Status failed;
  const auto query = [&](std::size_t i) { return learning.Row((first + i) % learning.n()); };
  const auto done = [&](std::size_t, const absl::Status& status, Answer&) {
    failed.Update(status);
  };
  struct Tried {
    std::uint32_t in_flight;
    std::vector<double> seconds{};
  };
  std::vector<Tried> tried;
  const std::uint32_t most = index->on_block_tier() ? kMostOnADevice : kMostInMemory;
  for (std::uint32_t queries = 1; queries <= most; queries *= 2) tried.push_back({queries});
  for (int round = 0; round < kInFlightRounds; ++round) {
    for (Tried& one : tried) {
      const auto start = std::chrono::steady_clock::now();
      HMANN_RETURN_IF_ERROR(
          searcher.SearchMany(count, query, params, one.in_flight, done, nullptr, limits));
      HMANN_RETURN_IF_ERROR(failed);
      one.seconds.push_back(SecondsSince(start));
      first += count;
    }
  }
  double least = Median(tried.front().seconds);
  const double alone = least;
  for (const Tried& one : tried) least = std::min(least, Median(one.seconds));
  const auto found = std::find_if(tried.begin(), tried.end(), [&](const Tried& one) {
    return kAsGood * Median(one.seconds) <= least;
  });
  return InFlight{found->in_flight, alone / Median(found->seconds)};
}

}  // namespace hmann
