#include "index/search/choose_helpers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "index/base/cpu.h"
#include "index/search/migration_helpers.h"
#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

SearchOptions DialsWith(Prefetch prefetch) {
  return {.k = 10, .ef_l1 = 20, .ef_l0 = 40, .walk = WalkKind::kBestFirst, .prefetch = prefetch};
}

/// True times of 0, 1, ... helpers, and passes that measure them on a busy machine: up to
/// kJitter too much always, and up to eleven times as much now and then, but never in
/// each of the five rounds.
class BusyMachine {
 public:
  static constexpr double kJitter = 0.015;

  explicit BusyMachine(std::uint64_t seed)
      : seed_(seed), passes_(1 + RandomBelow(seed, draws_++, 5)) {
    // Differences of a few percent, where a wrong choice is likely; and large ones.
    const double spread = seed % 2 == 0 ? 0.1 : 2;
    for (std::size_t i = 0; i < passes_.size(); ++i) times_.push_back(1e5 * (1 + spread * Draw()));
  }

  double Pass(int threads) {
    const auto which = static_cast<std::size_t>(threads);
    const int pass = passes_.at(which)++;
    const bool disturbed = pass % 5 != static_cast<int>(which) % 5 && Draw() < 0.6;
    return times_[which] * (1 + kJitter * Draw()) * (disturbed ? 1 + 10 * Draw() : 1);
  }

  int most() const { return static_cast<int>(times_.size()) - 1; }
  const std::vector<double>& times() const { return times_; }
  const std::vector<int>& passes() const { return passes_; }

 private:
  double Draw() { return RandomUnit(seed_, draws_++); }

  const std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  std::vector<double> times_;
  std::vector<int> passes_;
};

TEST(ChooseHelpersByPasses, IsWithinFivePercentOfTryingAllWithAsFewAsThatTakes) {
  std::vector<int> chosen_counts(5);
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    BusyMachine machine(seed);
    const int chosen =
        ChooseHelpersByPasses(machine.most(), [&](int threads) { return machine.Pass(threads); });
    ASSERT_GE(chosen, 0);
    ASSERT_LE(chosen, machine.most());
    ++chosen_counts[static_cast<std::size_t>(chosen)];
    const double best = *std::min_element(machine.times().begin(), machine.times().end());
    ASSERT_LE(machine.times()[static_cast<std::size_t>(chosen)], 1.05 * best);
    // A smaller number was passed over only because it costs something.
    for (int fewer = 0; fewer < chosen; ++fewer) {
      ASSERT_GT(machine.times()[static_cast<std::size_t>(fewer)] * (1 + BusyMachine::kJitter),
                1.03 * best);
    }
    for (const int passes : machine.passes()) ASSERT_EQ(passes, 5);
  }
  for (const int count : chosen_counts) EXPECT_GT(count, 0);
}

TEST(ChooseHelpersByPasses, NeverTakesANumberWithWhichSearchesFail) {
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ChooseHelpersByPasses(2, [](int threads) { return threads == 1 ? 7.0 : kFailed; }), 1);
  EXPECT_EQ(ChooseHelpersByPasses(2, [](int) { return kFailed; }), 0);
}

/// An index of random links as it lies on an emulated tier.
class OnEmulatedTier : public ::testing::Test {
 protected:
  void SetUp() override {
    auto bus = EmulatedBus::Make({.latency_ns = 300});
    ASSERT_TRUE(bus.ok()) << bus.status();
    bus_ = *bus;
    placed_ = index_.placed();
    placed_.emulated = bus_.get();
    placed_.far = true;
  }

  const RandomIndex index_{{.n = 2000, .n1 = 300, .m = 8, .dim = 32}};
  std::shared_ptr<EmulatedBus> bus_;
  PlacedIndex placed_;
};

TEST_F(OnEmulatedTier, LeavesACoreToTheSearchAndChangesNoAnswer) {
  const int chosen = ChooseHelpers(placed_);
  EXPECT_GE(chosen, 0);
  EXPECT_LE(chosen, std::min(2, UsableCores() - 1));
  AskedDriver plain(index_.placed());
  for (const int threads : {chosen, 1, 2}) {
    std::unique_ptr<MigrationHelpers> helpers;
    if (threads > 0) helpers = std::make_unique<MigrationHelpers>(threads, bus_.get());
    PlacedIndex with = placed_;
    with.helpers = helpers.get();
    with.helpers_asked = true;
    AskedDriver runner(with);
    Counters counters;
    for (std::uint64_t query = 0; query < 50; ++query) {
      std::vector<Neighbour> found, expected;
      ASSERT_TRUE(runner
                      .Search(index_.Query(query).data(), DialsWith(Prefetch::kHelper), &found,
                              &counters, {})
                      .ok());
      ASSERT_TRUE(plain
                      .Search(index_.Query(query).data(), DialsWith(Prefetch::kRound), &expected,
                              nullptr, {})
                      .ok());
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].label, expected[i].label) << threads << " helpers, query " << query;
        ASSERT_EQ(found[i].distance, expected[i].distance);
      }
    }
    EXPECT_GT(counters.migrated, 0u) << threads;
  }
}

TEST(ChooseHelpers, NoneWithoutUpperLayers) {
  const RandomIndex flat({.n = 60, .n1 = 0});
  EXPECT_EQ(ChooseHelpers(flat.placed()), 0);
}

}  // namespace
}  // namespace hmann
