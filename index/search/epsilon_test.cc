#include "index/search/epsilon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

/// For 20 queries: labels of all answers, and the number of expanded nodes of L0.
struct Answered {
  std::vector<std::uint64_t> labels;
  std::uint64_t expanded = 0;
};

Answered AnswerWith(float epsilon, SearchMode mode) {
  const RandomIndex index({.n = 2000, .n1 = 300, .m = 6, .dim = 8, .bits = 2});
  ParamsExecutor runner(index.placed());
  Answered answered;
  for (std::uint64_t query = 0; query < 20; ++query) {
    const SearchParams options{.k = 10,
                               .ef_l1 = 4,
                               .ef_l0 = 64,
                               .mode = mode,
                               .nprobe = 0,
                               .beam_width = 2,
                               .epsilon = epsilon};
    std::vector<Neighbor> nearest;
    Counters counters;
    EXPECT_TRUE(runner.Search(index.Query(query).data(), options, &nearest, &counters, {}).ok());
    EXPECT_EQ(nearest.size(), 10u);
    for (const Neighbor& neighbor : nearest) answered.labels.push_back(neighbor.label);
    answered.expanded += counters.expanded_l0;
  }
  return answered;
}

TEST(EpsilonLimit, TheNarrowerTheLessWork) {
  for (const SearchMode mode : {SearchMode::kGraph, SearchMode::kQuantized}) {
    SCOPED_TRACE(static_cast<int>(mode));
    const Answered without = AnswerWith(-1, mode), endless = AnswerWith(1e6, mode);
    EXPECT_EQ(endless.labels, without.labels);
    EXPECT_EQ(endless.expanded, without.expanded);
    std::uint64_t before = without.expanded;
    for (const float epsilon : {0.5f, 0.2f, 0.0f, -0.2f, -0.5f}) {
      const std::uint64_t expanded = AnswerWith(epsilon, mode).expanded;
      EXPECT_LT(expanded, before) << "epsilon " << epsilon;
      before = expanded;
    }
  }
}

TEST(EpsilonLimit, IsRefusedWhereDistancesHaveNoMultiples) {
  const RandomIndex index({.metric = Metric::kInnerProduct});
  ParamsExecutor runner(index.placed());
  std::vector<Neighbor> nearest;
  const absl::Status status =
      runner.Search(index.Query(1).data(), {.epsilon = 0.2f}, &nearest, nullptr, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("inner products"));
  EXPECT_TRUE(runner.Search(index.Query(1).data(), {}, &nearest, nullptr, {}).ok())
      << "by default there is none";
}

}  // namespace
}  // namespace hmann
