#include "index/search/choose_helpers.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "index/base/cpu.h"
#include "index/search/migration_helpers.h"
#include "index/search/query_runner.h"

namespace hmann {
namespace {

constexpr NodeId kQueries = 32;
constexpr int kRounds = 5;
/// What a thread must save to be worth its core.
constexpr double kGain = 0.03;

/// Nanoseconds of one pass over the queries: promoted vectors, evenly spread.
std::int64_t OnePass(const PlacedIndex& index, QueryRunner& runner, Prefetch prefetch) {
  Answer answer;
  SearchOptions options{.prefetch = prefetch};
  options.k = std::min(options.k, index.layers.n());
  const absl::StatusOr<Dials> dials = options.Resolve(index.Context());
  if (!dials.ok()) return 0;
  const auto start = std::chrono::steady_clock::now();
  for (NodeId i = 0; i < kQueries; ++i) {
    const auto id = static_cast<NodeId>(std::uint64_t{i} * index.n1() / kQueries);
    // A stored row begins with the components as they were given (or normalised), so that it is a query as well.
    if (!runner.Search(index.FastRow(id), *dials, &answer, nullptr, {}).ok()) return 0;
  }
  return (std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int ChooseHelpers(const PlacedIndex& index) {
  const int most = std::min(2, UsableCores() - 1);
  if (most < 1 || index.n1() == 0) return 0;
  std::vector<std::int64_t> best(static_cast<std::size_t>(most) + 1, INT64_MAX);
  for (int round = 0; round < kRounds; ++round) {
    for (int threads = 0; threads <= most; ++threads) {
      MigrationHelpers* none = nullptr;
      PlacedIndex with = index;
      std::unique_ptr<MigrationHelpers> helpers;
      if (threads > 0) helpers = std::make_unique<MigrationHelpers>(threads, index.emulated);
      with.helpers = threads > 0 ? helpers.get() : none;
      for (LayerView& layer : with.upper) layer.kernels = &with.kernels;
      QueryRunner runner(with);
      OnePass(with, runner, Prefetch::kAhead);
      std::int64_t& time = best[static_cast<std::size_t>(threads)];
      time = std::min(time, OnePass(with, runner, threads > 0 ? Prefetch::kHelper : Prefetch::kAhead));
    }
  }
  const auto fastest = static_cast<double>(*std::min_element(best.begin(), best.end()));
  for (int threads = 0; threads <= most; ++threads) {
    if (static_cast<double>(best[static_cast<std::size_t>(threads)]) <= fastest * (1 + kGain)) return threads;
  }
  return 0;
}

}  // namespace hmann
