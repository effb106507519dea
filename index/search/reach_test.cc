#include "index/search/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

/// Of 20 queries: labels of all answers, and nodes of L0 that were expanded.
struct Answered {
  std::vector<std::uint64_t> labels;
  std::uint64_t expanded = 0;
};

Answered AnswerWith(float reach, WalkKind walk) {
  const RandomIndex index({.n = 2000, .n1 = 300, .m = 6, .dim = 8, .bits = 2});
  AskedDriver runner(index.placed());
  Answered answered;
  for (std::uint64_t query = 0; query < 20; ++query) {
    const SearchOptions options{.k = 10, .ef_l1 = 4, .ef_l0 = 64, .walk = walk, .cells = 0, .width = 2, .reach = reach};
    std::vector<Neighbour> nearest;
    Counters counters;
    EXPECT_TRUE(runner.Search(index.Query(query).data(), options, &nearest, &counters, {}).ok());
    EXPECT_EQ(nearest.size(), 10u);
    for (const Neighbour& neighbour : nearest) answered.labels.push_back(neighbour.label);
    answered.expanded += counters.expanded_l0;
  }
  return answered;
}

TEST(Reach, TheNarrowerTheLessWork) {
  for (const WalkKind walk : {WalkKind::kPool, WalkKind::kGated}) {
    SCOPED_TRACE(static_cast<int>(walk));
    const Answered without = AnswerWith(0, walk), endless = AnswerWith(1e6, walk);
    EXPECT_EQ(endless.labels, without.labels);
    EXPECT_EQ(endless.expanded, without.expanded);
    std::uint64_t before = without.expanded;
    for (const float reach : {1.5f, 1.2f, 1.0f}) {
      const std::uint64_t expanded = AnswerWith(reach, walk).expanded;
      EXPECT_LT(expanded, before) << "reach " << reach;
      before = expanded;
    }
  }
}

TEST(Reach, IsRefusedWhereDistancesHaveNoMultiples) {
  const RandomIndex index({.metric = Metric::kInnerProduct});
  AskedDriver runner(index.placed());
  std::vector<Neighbour> nearest;
  const absl::Status status = runner.Search(index.Query(1).data(), {.reach = 1.2f}, &nearest, nullptr, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("inner products"));
  EXPECT_TRUE(runner.Search(index.Query(1).data(), {}, &nearest, nullptr, {}).ok()) << "by default there is none";
}

}  // namespace
}  // namespace hmann
