// Compares answers and counters of the in-memory executor with those of a slow and simple
// search, at many parameters.
#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "index/graph/testing/reference_search.h"
#include "index/search/testing/executor_answers.h"
#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

void ExpectReference(const RandomIndex& index, ParamsExecutor& runner, std::uint64_t query_number,
                     const SearchParams& options) {
  const std::vector<std::byte> query = index.Query(query_number);
  std::vector<std::byte> stored(index.placed().kernels.row_bytes);
  ASSERT_TRUE(EncodeRow(index.placed().kernels, query.data(), stored.data()).ok());
  const ExecutorAnswer found = MustSearch(runner, query, options);
  const ReferenceIndex reference = index.Reference();
  const ReferenceAnswer expected = ReferenceSearch(
      reference, stored.data(),
      {options.k, *options.ef_l1, options.mode == SearchMode::kUpper ? 0 : *options.ef_l0,
       options.mode == SearchMode::kGraph, options.query_threads.value_or(1),
       options.beam_width.value_or(1), options.epsilon.value_or(-1)});
  std::vector<Neighbor> nearest;
  for (const Candidate& candidate : expected.nearest) {
    nearest.push_back(
        {index.Label(candidate.id), index.placed().kernels.ToDistance(candidate.key)});
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSameAnswer(found.nearest, nearest));
  EXPECT_EQ(found.counters.distances_fast, expected.counters.distances_fast);
  EXPECT_EQ(found.counters.distances_slow, expected.counters.distances_slow);
  EXPECT_EQ(found.counters.node_reads, expected.counters.node_reads);
  EXPECT_EQ(found.counters.node_accesses, expected.counters.node_accesses);
  EXPECT_EQ(found.counters.node_bytes, expected.counters.node_bytes);
  EXPECT_EQ(found.counters.hops, expected.counters.hops);
  EXPECT_EQ(found.counters.expanded_l1, expected.counters.expanded_l1);
  EXPECT_EQ(found.counters.expanded_l0, expected.counters.expanded_l0);
}

/// Many parameters on one index, two queries each, in one runner: the state that one
/// query leaves behind must not affect the next.
void ExpectReferenceAtManyParams(const RandomShape& shape) {
  const RandomIndex index(shape);
  ParamsExecutor runner(index.placed());
  std::uint64_t query = 0;
  for (const SearchMode mode : {SearchMode::kGraph, SearchMode::kMultiStart, SearchMode::kUpper}) {
    for (const std::uint32_t k : {1u, 7u, shape.n1 + 3, shape.n}) {
      for (const std::uint32_t ef_l1 : {1u, 5u, 12u, 2 * shape.n}) {
        for (const std::uint32_t ef_l0 : {1u, 2u, 9u, 40u}) {
          if (k > shape.n || (mode == SearchMode::kUpper && ef_l0 > 1)) continue;
          SCOPED_TRACE(absl::StrCat("seed ", shape.seed, ", ", static_cast<int>(mode), ", k ", k,
                                    ", ef_l1 ", ef_l1, ", ef_l0 ", ef_l0));
          SearchParams options{.k = k, .ef_l1 = ef_l1, .ef_l0 = ef_l0, .mode = mode};
          if (mode == SearchMode::kUpper) options.ef_l0.reset();
          ASSERT_NO_FATAL_FAILURE(ExpectReference(index, runner, query++, options));
          for (const std::uint32_t threads : {2u, 4u, 8u}) {
            if (mode != SearchMode::kMultiStart) break;
            options.query_threads = threads;
            ASSERT_NO_FATAL_FAILURE(ExpectReference(index, runner, query++, options))
                << threads << " threads";
          }
          if (mode != SearchMode::kGraph) continue;
          for (const std::uint32_t width : {1u, 2u, 8u}) {
            options.beam_width = width;
            for (const float epsilon : {-1.0f, -0.2f, 0.0f, 0.3f, 1.5f}) {
              if (epsilon > -1 && !index.placed().Context().has_ratios) continue;
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
    ASSERT_NO_FATAL_FAILURE(ExpectReferenceAtManyParams(shape));
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

TEST(MemoryExecutor, EqualsTheReferenceWithoutUpperLayers) {
  ExpectReferenceAtManyParams({.n = 60, .n1 = 0});
}
TEST(MemoryExecutor, EqualsTheReferenceWithOnePromotedNode) {
  ExpectReferenceAtManyParams({.n = 40, .n1 = 1, .m = 2});
}
TEST(MemoryExecutor, EqualsTheReferenceOnTwoNodes) {
  ExpectReferenceAtManyParams({.n = 2, .n1 = 1});
}
TEST(MemoryExecutor, EqualsTheReferenceOnOneNode) {
  ExpectReferenceAtManyParams({.n = 1, .n1 = 0, .dim = 1});
}
TEST(MemoryExecutor, EqualsTheReferenceWhereL1IsInPieces) {
  ExpectReferenceAtManyParams({.n = 120, .n1 = 30, .l1_in_pieces = true});
}
TEST(MemoryExecutor, EqualsTheReferenceOnFiveLayers) {
  ExpectReferenceAtManyParams({.n = 150, .n1 = 70, .m = 2});
}

}  // namespace
}  // namespace hmann
