// Answers and counters of the in-memory driver beside those of a slow and obvious search,
// at many dials.
#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "index/graph/testing/reference_search.h"
#include "index/search/testing/driver_answers.h"
#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

void ExpectReference(const RandomIndex& index, AskedDriver& runner, std::uint64_t query_number,
                     const SearchOptions& options) {
  const std::vector<std::byte> query = index.Query(query_number);
  std::vector<std::byte> stored(index.placed().kernels.row_bytes);
  ASSERT_TRUE(EncodeRow(index.placed().kernels, query.data(), stored.data()).ok());
  const DriverAnswer found = MustSearch(runner, query, options);
  const ReferenceIndex reference = index.Reference();
  const ReferenceAnswer expected = ReferenceSearch(
      reference, stored.data(),
      {options.k, *options.ef_l1, options.walk == WalkKind::kUpper ? 0 : *options.ef_l0,
       options.walk == WalkKind::kBestFirst, options.beam_width.value_or(1),
       options.epsilon.value_or(-1)});
  std::vector<Neighbour> nearest;
  for (const Candidate& candidate : expected.nearest) {
    nearest.push_back(
        {index.Label(candidate.id), index.placed().kernels.ToDistance(candidate.key)});
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSameAnswer(found.nearest, nearest));
  EXPECT_EQ(found.counters.distances_fast, expected.counters.distances_fast);
  EXPECT_EQ(found.counters.distances_slow, expected.counters.distances_slow);
  EXPECT_EQ(found.counters.slow_reads, expected.counters.slow_reads);
  EXPECT_EQ(found.counters.slow_touches, expected.counters.slow_touches);
  EXPECT_EQ(found.counters.slow_bytes, expected.counters.slow_bytes);
  EXPECT_EQ(found.counters.rounds, expected.counters.rounds);
  EXPECT_EQ(found.counters.expanded_l1, expected.counters.expanded_l1);
  EXPECT_EQ(found.counters.expanded_l0, expected.counters.expanded_l0);
}

/// Many dials on one index, two queries each, in one runner: what one query leaves behind
/// must not matter to the next.
void ExpectReferenceAtManyDials(const RandomShape& shape) {
  const RandomIndex index(shape);
  AskedDriver runner(index.placed());
  std::uint64_t query = 0;
  for (const WalkKind walk : {WalkKind::kBestFirst, WalkKind::kMultiStart, WalkKind::kUpper}) {
    for (const std::uint32_t k : {1u, 7u, shape.n1 + 3, shape.n}) {
      for (const std::uint32_t ef_l1 : {1u, 5u, 12u, 2 * shape.n}) {
        for (const std::uint32_t ef_l0 : {1u, 2u, 9u, 40u}) {
          if (k > shape.n || (walk == WalkKind::kUpper && ef_l0 > 1)) continue;
          SCOPED_TRACE(absl::StrCat("seed ", shape.seed, ", ", static_cast<int>(walk), ", k ", k,
                                    ", ef_l1 ", ef_l1, ", ef_l0 ", ef_l0));
          SearchOptions options{.k = k, .ef_l1 = ef_l1, .ef_l0 = ef_l0, .walk = walk};
          if (walk == WalkKind::kUpper) options.ef_l0.reset();
          ASSERT_NO_FATAL_FAILURE(ExpectReference(index, runner, query++, options));
          if (walk != WalkKind::kBestFirst) continue;
          for (const std::uint32_t width : {1u, 2u, 8u}) {
            options.beam_width = width;
            for (const float epsilon : {-1.0f, 0.0f, 0.3f, 1.5f}) {
              if (epsilon >= 0 && !index.placed().Context().has_ratios) continue;
              options.epsilon = epsilon;
              ASSERT_NO_FATAL_FAILURE(ExpectReference(index, runner, query++, options))
                  << "width " << width << ", epsilon " << epsilon;
            }
          }
        }
      }
    }
  }
}

class EqualsReference : public testing::TestWithParam<std::tuple<DType, Metric>> {};

TEST_P(EqualsReference, AnswersAndCounters) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    RandomShape shape;
    std::tie(shape.dtype, shape.metric) = GetParam();
    shape.seed = seed;
    shape.n = 20 + static_cast<NodeId>(RandomBelow(seed, 0, 150));
    shape.n1 = 1 + static_cast<NodeId>(RandomBelow(seed, 1, shape.n / 2));
    shape.m = 2 + static_cast<std::uint32_t>(RandomBelow(seed, 2, 5));
    shape.dim = 1 + static_cast<std::uint32_t>(RandomBelow(seed, 3, 20));
    shape.user_labels = seed % 2 == 0;
    ASSERT_NO_FATAL_FAILURE(ExpectReferenceAtManyDials(shape));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EqualsReference,
    testing::Combine(testing::Values(DType::kF32, DType::kU8, DType::kI8, DType::kF16),
                     testing::Values(Metric::kL2, Metric::kInnerProduct, Metric::kCosine)),
    [](const auto& info) {
      return absl::StrCat(absl::string_view(Name(std::get<0>(info.param)).data()), "_",
                          absl::string_view(Name(std::get<1>(info.param)).data()));
    });

TEST(MemoryDriver, EqualsTheReferenceWithoutUpperLayers) {
  ExpectReferenceAtManyDials({.n = 60, .n1 = 0});
}
TEST(MemoryDriver, EqualsTheReferenceWithOnePromotedNode) {
  ExpectReferenceAtManyDials({.n = 40, .n1 = 1, .m = 2});
}
TEST(MemoryDriver, EqualsTheReferenceOnTwoNodes) { ExpectReferenceAtManyDials({.n = 2, .n1 = 1}); }
TEST(MemoryDriver, EqualsTheReferenceOnOneNode) {
  ExpectReferenceAtManyDials({.n = 1, .n1 = 0, .dim = 1});
}
TEST(MemoryDriver, EqualsTheReferenceWhereL1IsInPieces) {
  ExpectReferenceAtManyDials({.n = 120, .n1 = 30, .l1_in_pieces = true});
}
TEST(MemoryDriver, EqualsTheReferenceOnFiveLayers) {
  ExpectReferenceAtManyDials({.n = 150, .n1 = 70, .m = 2});
}

}  // namespace
}  // namespace hmann
