#include "index/search/epsilon.h"

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

Answered AnswerWith(float epsilon, WalkKind walk) {
  const RandomIndex index({.n = 2000, .n1 = 300, .m = 6, .dim = 8, .bits = 2});
  AskedDriver runner(index.placed());
  Answered answered;
  for (std::uint64_t query = 0; query < 20; ++query) {
    const SearchOptions options{.k = 10,
                                .ef_l1 = 4,
                                .ef_l0 = 64,
                                .walk = walk,
                                .nprobe = 0,
                                .beam_width = 2,
                                .epsilon = epsilon};
    std::vector<Neighbour> nearest;
    Counters counters;
    EXPECT_TRUE(runner.Search(index.Query(query).data(), options, &nearest, &counters, {}).ok());
    EXPECT_EQ(nearest.size(), 10u);
    for (const Neighbour& neighbour : nearest) answered.labels.push_back(neighbour.label);
    answered.expanded += counters.expanded_l0;
  }
  return answered;
}

TEST(EpsilonLimit, TheNarrowerTheLessWork) {
  for (const WalkKind walk : {WalkKind::kBestFirst, WalkKind::kQuantised}) {
    SCOPED_TRACE(static_cast<int>(walk));
    const Answered without = AnswerWith(-1, walk), endless = AnswerWith(1e6, walk);
    EXPECT_EQ(endless.labels, without.labels);
    EXPECT_EQ(endless.expanded, without.expanded);
    std::uint64_t before = without.expanded;
    for (const float epsilon : {0.5f, 0.2f, 0.0f}) {
      const std::uint64_t expanded = AnswerWith(epsilon, walk).expanded;
      EXPECT_LT(expanded, before) << "epsilon " << epsilon;
      before = expanded;
    }
  }
}

TEST(EpsilonLimit, IsRefusedWhereDistancesHaveNoMultiples) {
  const RandomIndex index({.metric = Metric::kInnerProduct});
  AskedDriver runner(index.placed());
  std::vector<Neighbour> nearest;
  const absl::Status status =
      runner.Search(index.Query(1).data(), {.epsilon = 0.2f}, &nearest, nullptr, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("inner products"));
  EXPECT_TRUE(runner.Search(index.Query(1).data(), {}, &nearest, nullptr, {}).ok())
      << "by default there is none";
}

}  // namespace
}  // namespace hmann
