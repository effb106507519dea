#include "index/tune/planner.h"

#include <gtest/gtest.h>

#include <tuple>

#include "index/base/random.h"

namespace hmann {
namespace {

using Groups = std::vector<std::vector<Variant>>;

/// Tries everything.
std::optional<KnapsackSolution> BruteForce(const Groups& groups, const TierBytes& budget) {
  std::optional<KnapsackSolution> best;
  std::vector<std::size_t> chosen(groups.size(), 0);
  while (true) {
    KnapsackSolution one{chosen, {}, 0};
    for (std::size_t g = 0; g < groups.size(); ++g) {
      one.bytes = one.bytes + groups[g][chosen[g]].bytes;
      one.cost += groups[g][chosen[g]].cost;
    }
    const auto order = [](const KnapsackSolution& a) {
      return std::tuple(a.cost, a.bytes.fast, a.bytes.middle);
    };
    if (one.bytes.Fits(budget) && (!best.has_value() || order(one) < order(*best))) best = one;
    std::size_t g = 0;
    while (g < groups.size() && ++chosen[g] == groups[g].size()) chosen[g++] = 0;
    if (g == groups.size()) return best;
  }
}

/// Costs are whole numbers, so that sums are exact in any order, and few, so that ties
/// are common.
Groups RandomGroups(std::uint64_t seed) {
  std::uint64_t counter = 0;
  const auto draw = [&](std::uint64_t bound) { return RandomBelow(seed, counter++, bound); };
  Groups groups(1 + draw(5));
  for (std::vector<Variant>& group : groups) {
    group.resize(1 + draw(5));
    for (Variant& variant : group)
      variant = {{draw(20), draw(3) == 0 ? draw(20) : 0}, static_cast<double>(draw(30))};
  }
  return groups;
}

TEST(SolveKnapsack, EqualsBruteForceOnSmallInstances) {
  int unsolvable = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Groups groups = RandomGroups(seed);
    const TierBytes budget{RandomBelow(seed, 1000, 60), RandomBelow(seed, 1001, 30)};
    const auto expected = BruteForce(groups, budget), found = SolveKnapsack(groups, budget);
    ASSERT_EQ(found.has_value(), expected.has_value()) << "seed " << seed;
    if (!found.has_value()) {
      ++unsolvable;
      continue;
    }
    EXPECT_EQ(found->cost, expected->cost) << "seed " << seed;
    EXPECT_EQ(found->bytes, expected->bytes) << "seed " << seed;
    TierBytes bytes;
    double cost = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      bytes = bytes + groups[g][found->chosen[g]].bytes;
      cost += groups[g][found->chosen[g]].cost;
    }
    EXPECT_EQ(bytes, found->bytes) << "what is said of the chosen, seed " << seed;
    EXPECT_EQ(cost, found->cost) << "seed " << seed;
  }
  EXPECT_GT(unsolvable, 50);
  EXPECT_LT(unsolvable, 1500);
}

TEST(SolveKnapsack, NeverGetsWorseAsABudgetGrows) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Groups groups = RandomGroups(seed);
    for (std::uint64_t middle = 0; middle < 30; middle += 7) {
      std::optional<KnapsackSolution> before;
      for (std::uint64_t fast = 0; fast < 60; ++fast) {
        const auto now = SolveKnapsack(groups, {fast, middle});
        if (before.has_value()) {
          ASSERT_TRUE(now.has_value()) << "seed " << seed;
          EXPECT_LE(now->cost, before->cost)
              << "seed " << seed << ", " << fast << " fast, " << middle << " middle";
        }
        before = now;
      }
    }
  }
}

TEST(SolveKnapsack, WorkStaysSmallWhereVariantsAreOnOneLine) {
  // Ten deciles that are cached or not, of equal size: 2^10 choices, but 11 sizes.
  Groups groups(10);
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i] = {{{0, 0}, 100.0 - static_cast<double>(i)}, {{4096, 0}, 1}};
  KnapsackWork work;
  const auto found = SolveKnapsack(groups, {3 * 4096 + 1, 0}, &work);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->chosen, (std::vector<std::size_t>{1, 1, 1, 0, 0, 0, 0, 0, 0, 0}))
      << "the hottest";
  EXPECT_LE(work.states, 2u * 11 * 10);
}

TEST(SolveKnapsack, NoGroupsAndEmptyGroups) {
  const auto nothing = SolveKnapsack({}, {0, 0});
  ASSERT_TRUE(nothing.has_value());
  EXPECT_TRUE(nothing->chosen.empty());
  EXPECT_FALSE(SolveKnapsack({{}}, {100, 100}).has_value());
}

}  // namespace
}  // namespace hmann
