#include "index/search/choose_helpers.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

#include "index/base/cpu.h"
#include "index/search/memory_driver.h"
#include "index/search/migration_helpers.h"

namespace hmann {
namespace {

constexpr std::size_t kQueries = 32;
constexpr int kRounds = 5;
/// What a thread must save to be worth its core.
constexpr double kGain = 0.03;

/// Nanoseconds of one pass over the queries: promoted vectors, evenly spread.
double OnePass(const PlacedIndex& index, MemoryDriver& driver, Prefetch prefetch) {
  SearchOptions options{.prefetch = prefetch};
  options.k = std::min(options.k, index.layers.n());
  const absl::StatusOr<Dials> dials = options.Resolve(index.Context());
  if (!dials.ok()) return std::numeric_limits<double>::infinity();
  const auto start = std::chrono::steady_clock::now();
  // A stored row begins with the components as they were given (or normalised), so that
  // it is a query as well.
  const auto query = [&](std::size_t i) -> const void* {
    return index.FastRow(static_cast<NodeId>(i * index.n1() / kQueries));
  };
  bool failed = false;
  const auto done = [&failed](std::size_t, const absl::Status& status, Answer&) {
    failed = failed || !status.ok();
  };
  const SearchLimits limits;
  failed = !driver.Run({kQueries, 1, query, *dials, done, nullptr, limits}).ok() || failed;
  if (failed) return std::numeric_limits<double>::infinity();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

/// The second of two passes with helpers of its own.
double PassWith(const PlacedIndex& index, int threads) {
  std::unique_ptr<MigrationHelpers> helpers;
  if (threads > 0) helpers = std::make_unique<MigrationHelpers>(threads, index.emulated);
  PlacedIndex with = index;
  with.helpers = helpers.get();
  for (LayerView& layer : with.upper) layer.kernels = &with.kernels;
  MemoryDriver driver(with);
  OnePass(with, driver, Prefetch::kAhead);
  return OnePass(with, driver, threads > 0 ? Prefetch::kHelper : Prefetch::kAhead);
}

}  // namespace

int ChooseHelpersByPasses(int most, const std::function<double(int threads)>& pass) {
  std::vector<double> quickest(static_cast<std::size_t>(most) + 1,
                               std::numeric_limits<double>::infinity());
  for (int round = 0; round < kRounds; ++round) {
    for (int threads = 0; threads <= most; ++threads) {
      double& time = quickest[static_cast<std::size_t>(threads)];
      time = std::min(time, pass(threads));
    }
  }
  const double enough = *std::min_element(quickest.begin(), quickest.end()) * (1 + kGain);
  const auto smallest =
      std::find_if(quickest.begin(), quickest.end(), [&](double time) { return time <= enough; });
  return static_cast<int>(smallest - quickest.begin());
}

int ChooseHelpers(const PlacedIndex& index) {
  const int most = std::min(2, UsableCores() - 1);
  if (most < 1 || index.n1() == 0) return 0;
  return ChooseHelpersByPasses(most, [&index](int threads) { return PassWith(index, threads); });
}

}  // namespace hmann
