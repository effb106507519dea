#include "datasets/recall.h"

#include <limits>

#include "gmock/gmock.h"

namespace hmann {
namespace {

using Ids = std::vector<std::uint64_t>;
using Floats = std::vector<float>;

/// One query; neighbors 2 and 3 (ranks 3 and 4) are equally far.
GroundTruth Tied() {
  return {.n = 1, .k = 5, .ids = {10, 11, 12, 13, 14}, .distances = {1, 2, 3, 3, 9}};
}

GroundTruth WithoutDistances() {
  GroundTruth truth = Tied();
  truth.distances.clear();
  return truth;
}

TEST(Recall, CountsWhatIsAmongTheFirstK) {
  const GroundTruth truth = WithoutDistances();
  EXPECT_EQ(RecallAtK(truth, 0, 3, Ids{10, 11, 12}, {}), 1.0);
  EXPECT_EQ(RecallAtK(truth, 0, 3, Ids{12, 10, 11}, {}), 1.0);
  EXPECT_DOUBLE_EQ(RecallAtK(truth, 0, 3, Ids{10, 11, 13}, {}), 2.0 / 3);
  EXPECT_EQ(RecallAtK(truth, 0, 3, Ids{13, 14, 15}, {}), 0.0);
  EXPECT_DOUBLE_EQ(RecallAtK(truth, 0, 3, Ids{15, 14, 13, 10, 11, 12}, {}), 0.0)
      << "only the first k answers count";
}

TEST(Recall, CountsATieAtRankKWhereTheTruthHasDistances) {
  EXPECT_EQ(RecallAtK(Tied(), 0, 3, Ids{10, 11, 13}, {}), 1.0) << "rank 4 is as far as rank 3";
  EXPECT_DOUBLE_EQ(RecallAtK(Tied(), 0, 2, Ids{10, 12}, {}), 0.5) << "no tie at rank 2";
  EXPECT_DOUBLE_EQ(RecallAtK(Tied(), 0, 3, Ids{10, 11, 14}, {}), 2.0 / 3);
}

TEST(Recall, CountsATieThatTheTruthHasNoRoomFor) {
  EXPECT_DOUBLE_EQ(RecallAtK(Tied(), 0, 5, Ids{10, 11, 12, 13, 99}, Floats{1, 2, 3, 3, 9}), 1.0);
  EXPECT_DOUBLE_EQ(RecallAtK(Tied(), 0, 5, Ids{10, 11, 12, 13, 99}, Floats{1, 2, 3, 3, 9.001f}),
                   0.8);
  EXPECT_DOUBLE_EQ(RecallAtK(Tied(), 0, 5, Ids{10, 11, 12, 13, 99}, {}), 0.8);
  EXPECT_DOUBLE_EQ(
      RecallAtK(WithoutDistances(), 0, 5, Ids{10, 11, 12, 13, 99}, Floats{1, 2, 3, 3, 9}), 0.8);
  const GroundTruth whole{.n = 1, .k = 1, .ids = {1}, .distances = {1'000'000}};
  EXPECT_EQ(RecallAtK(whole, 0, 1, Ids{2}, Floats{1'000'000}), 1.0);
  EXPECT_EQ(RecallAtK(whole, 0, 1, Ids{2}, Floats{1'000'001}), 0.0)
      << "neighboring whole numbers are no tie";
}

/// Of ten equal directions, a double finds 0 or 1e-16, a kernel one or two roundings.
TEST(Recall, TiesOfCosineMayDifferByRoundingsOfOne) {
  for (const float at : {0.0f, 1e-16f, -1e-16f, 0.002f, 1.0f, 1.99f}) {
    GroundTruth truth{.n = 1, .k = 3, .ids = {10, 11, 12}, .distances = {at, at, at}};
    truth.distances[1] += 1e-16f;
    const Ids others = {20, 21, 12};
    const Floats found = {at + 1.19e-7f, at + 1.19e-7f, at + 2.4e-7f};
    truth.metric = Metric::kCosine;
    EXPECT_EQ(RecallAtK(truth, 0, 3, others, found), 1.0) << at;
    EXPECT_EQ(RecallAtK(truth, 0, 3, Ids{20, 21, 22}, found), 1.0) << at;
    EXPECT_EQ(RecallAtK(truth, 0, 3, Ids{20, 21, 22}, Floats{at + 1e-6f, at + 1e-6f, at + 1e-6f}),
              0.0);
  }
  const GroundTruth one{.n = 1, .k = 1, .ids = {1}, .distances = {0}, .metric = Metric::kCosine};
  EXPECT_EQ(RecallAtK(one, 0, 1, Ids{2}, Floats{1.2e-7f}), 1.0);
}

TEST(Recall, ADistanceThatVanishesIsNoTieWhereTheTruthHasNone) {
  for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine}) {
    const GroundTruth truth{
        .n = 1, .k = 3, .ids = {10, 11, 12}, .distances = {1e-9f, 2e-9f, 3e-9f}, .metric = metric};
    EXPECT_DOUBLE_EQ(RecallAtK(truth, 0, 3, Ids{20, 11, 21}, Floats{0, 0, 0}), 1.0 / 3);
  }
}

TEST(Recall, DistancesThatVanishedInTheTruthAreNoTies) {
  const GroundTruth truth{
      .n = 1, .k = 3, .ids = {10, 11, 12}, .distances = {kVanished, kVanished, kVanished}};
  EXPECT_DOUBLE_EQ(RecallAtK(truth, 0, 3, Ids{20, 12, 21}, Floats{0, 0, 0}), 1.0 / 3);
}

TEST(Recall, TiesOfInnerProductsMayDifferByRoundingsOfTheLargest) {
  const GroundTruth truth{.n = 1,
                          .k = 4,
                          .ids = {10, 11, 12, 13},
                          .distances = {-100, -1e-6f, -1e-6f, -1e-6f},
                          .metric = Metric::kInnerProduct};
  EXPECT_EQ(RecallAtK(truth, 0, 4, Ids{10, 20, 21, 22}, Floats{-100, -9e-6f, 4e-6f, 2e-5f}), 1.0);
  EXPECT_EQ(RecallAtK(truth, 0, 4, Ids{10, 20, 21, 22}, Floats{-100, -1e-3f, 1e-3f, 1}), 0.25);
}

/// An index of halves rounds vectors, by more than a rounding of f32.
TEST(Recall, AnAnswerNoFartherThanAListedTieIsOne) {
  const GroundTruth truth{.n = 1, .k = 4, .ids = {10, 11, 12, 13}, .distances = {1, 3, 3, 3}};
  EXPECT_EQ(RecallAtK(truth, 0, 4, Ids{10, 20, 21, 12}, Floats{1, 3.01f, 3.01f, 3.01f}), 1.0);
  EXPECT_EQ(RecallAtK(truth, 0, 4, Ids{10, 12, 20, 21}, Floats{1, 3.01f, 3.02f, 3.02f}), 0.5);
  EXPECT_EQ(RecallAtK(truth, 0, 2, Ids{10, 13}, Floats{1, 3}), 1.0);
}

TEST(Recall, TiesDoNotStandForNearerNeighbors) {
  const GroundTruth truth{.n = 1, .k = 4, .ids = {10, 11, 12, 13}, .distances = {1, 3, 3, 3}};
  EXPECT_EQ(RecallAtK(truth, 0, 4, Ids{20, 21, 22, 23}, Floats{3, 3, 3, 3}), 0.75);
  EXPECT_EQ(RecallAtK(truth, 0, 2, Ids{11, 12}, Floats{3, 3}), 0.5);
}

TEST(Recall, CountsRepeatsOnceAndMissesAsNotFound) {
  EXPECT_DOUBLE_EQ(RecallAtK(Tied(), 0, 2, Ids{10, 10}, {}), 0.5);
  EXPECT_DOUBLE_EQ(RecallAtK(Tied(), 0, 2, Ids{10}, {}), 0.5);
  EXPECT_DOUBLE_EQ(RecallAtK(Tied(), 0, 2, Ids{}, {}), 0.0);
  const GroundTruth padded{.n = 1, .k = 2, .ids = {1, kNoNeighbor}, .distances = {}};
  EXPECT_DOUBLE_EQ(RecallAtK(padded, 0, 2, Ids{1, kNoNeighbor}, {}), 1.0);
  EXPECT_DOUBLE_EQ(RecallAtK(padded, 0, 2, Ids{2, kNoNeighbor}, {}), 0.0)
      << "a filler is no neighbor";
  const float far = std::numeric_limits<float>::infinity();
  const GroundTruth none{.n = 1, .k = 1, .ids = {kNoNeighbor}, .distances = {far}};
  EXPECT_DOUBLE_EQ(RecallAtK(none, 0, 1, Ids{}, {}), 1.0);
}

TEST(Recall, OfShardsCountsByTheChanceThatANeighborIsAmongTheNearestOfAll) {
  const GroundTruth truth{.n = 1, .k = 2, .ids = {1, 2}, .distances = {1, 2}};
  // One of two lies here with chance 1/2, both with 1/4.
  EXPECT_DOUBLE_EQ(RecallOfMerged(truth, 0, 2, 2, Ids{1, 2}, {}), 1);
  EXPECT_DOUBLE_EQ(RecallOfMerged(truth, 0, 2, 2, Ids{1, 7}, {}), 0.75);
  EXPECT_DOUBLE_EQ(RecallOfMerged(truth, 0, 2, 2, Ids{2, 7}, {}), 0.25);
  EXPECT_DOUBLE_EQ(RecallOfMerged(truth, 0, 2, 1, Ids{2, 7}, {}), 0.5);
  GroundTruth many{.n = 1, .k = 5000, .ids = {}, .distances = {}};
  for (std::uint64_t id = 0; id < 5000; ++id) many.ids.push_back(id);
  EXPECT_NEAR(RecallOfMerged(many, 0, 5000, 2, Ids(many.ids.begin(), many.ids.begin() + 2000), {}),
              0.8, 0.01);
}

TEST(Recall, ReadsTheRowOfTheQuery) {
  const GroundTruth truth{.n = 2, .k = 1, .ids = {5, 6}, .distances = {}};
  EXPECT_EQ(RecallAtK(truth, 0, 1, Ids{6}, {}), 0.0);
  EXPECT_EQ(RecallAtK(truth, 1, 1, Ids{6}, {}), 1.0);
}

TEST(Recall, Summarizes) {
  std::vector<double> per_query(100, 1.0);
  for (int i = 0; i < 4; ++i) per_query[static_cast<std::size_t>(20 * i)] = 0.0;
  EXPECT_DOUBLE_EQ(SummarizeRecall(per_query).mean, 0.96);
  EXPECT_EQ(SummarizeRecall(per_query).p05, 1.0) << "4 % are below";
  per_query[99] = 0.5;
  EXPECT_EQ(SummarizeRecall(per_query).p05, 0.5);
  EXPECT_EQ(SummarizeRecall({0.25}).p05, 0.25);
}

TEST(Recall, ChecksThatTheTruthIsEnough) {
  EXPECT_TRUE(CheckTruthCovers(Tied(), 1, 5).ok());
  EXPECT_EQ(CheckTruthCovers(Tied(), 2, 5).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckTruthCovers(Tied(), 1, 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(CheckTruthCovers(Tied(), 1, 6).message()),
              testing::HasSubstr("holds 5 neighbors of a query, k is 6"));
}

TEST(Recall, MeansOfTenthsReachTheTargetThatTheyAre) {
  std::vector<double> per_query(600, 1.0);
  for (std::size_t i = 0; i < 60; ++i) per_query[7 * i] = 0.9;
  EXPECT_EQ(SummarizeRecall(per_query).mean, 0.99);
  per_query.assign(600, 0.9);
  EXPECT_EQ(SummarizeRecall(per_query).mean, 0.9);
}

}  // namespace
}  // namespace hmann
