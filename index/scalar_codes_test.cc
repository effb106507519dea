// Searches by codes of scalar quantization: exact distances, the same answers on every
// tier, and nearly those of a search without codes.
#include "index/scalar_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "hmann/hmann.h"
#include "index/format/scalar_codes.h"
#include "index/index_impl.h"
#include "index/testing/tier_sample.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

class ScalarCodesTest : public testing::TestWithParam<std::uint32_t> {};

std::size_t Shared(const TierAnswers& a, const TierAnswers& b) {
  std::size_t shared = 0;
  for (std::size_t q = 0; q < kTierQueries; ++q) {
    for (const Neighbor& found : a.nearest[q]) {
      shared += std::any_of(b.nearest[q].begin(), b.nearest[q].end(),
                            [&](const Neighbor& other) { return other.label == found.label; })
                    ? 1
                    : 0;
    }
  }
  return shared;
}

TEST_P(ScalarCodesTest, AnswersAreExactAndNearlyThoseWithout) {
  for (const DType dtype : {DType::kF32, DType::kU8, DType::kI8}) {
    for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine}) {
      SCOPED_TRACE(absl::StrCat(Name(dtype).data(), " ", Name(metric).data()));
      const TierSample made(dtype, metric, 40);
      const auto without = made.Open("dram", {.sq_bits = 0});
      const auto with = made.Open("dram", {.sq_bits = GetParam()});
      ASSERT_TRUE(without != nullptr && with != nullptr);
      const SearchParams options{.k = 10, .ef_l1 = 20, .ef_l0 = 100, .mode = SearchMode::kGraph};
      const TierAnswers expected = made.Search(without, options),
                        found = made.Search(with, options);
      EXPECT_GE(Shared(found, expected), kTierQueries * (GetParam() == 8 ? 9 : 8));
      EXPECT_GT(found.total.estimates, 0u);
      // Four bits of inner products rank many again.
      if (metric != Metric::kInnerProduct || GetParam() == 8) {
        EXPECT_LT(found.total.distances_fast + found.total.distances_slow,
                  expected.total.distances_fast + expected.total.distances_slow);
      }
      const Kernels& kernels = with->kernels();
      std::vector<std::byte> query(kernels.row_bytes), row(kernels.row_bytes);
      for (std::size_t q = 0; q < kTierQueries; ++q) {
        ASSERT_EQ(found.nearest[q].size(), 10u);
        const void* vector = made.queries.Row(q * 37 % made.queries.n());
        ASSERT_TRUE(EncodeRow(kernels, made.queries.dtype(), vector, query.data()).ok());
        for (const Neighbor& near : found.nearest[q]) {
          const void* base = made.queries.Row(near.label);
          ASSERT_TRUE(EncodeRow(kernels, made.queries.dtype(), base, row.data()).ok());
          EXPECT_EQ(near.distance,
                    kernels.ToDistance(kernels.one(query.data(), row.data(), kernels.dim)));
        }
      }
    }
  }
}

TEST_P(ScalarCodesTest, GivesTheSameAnswersOnEveryTierInEveryMode) {
  const TierSample made(DType::kF32, Metric::kL2, 24);
  const auto dram = made.Open("dram", {.sq_bits = GetParam()});
  const auto plain = made.Open("dram", {.sq_bits = 0});
  for (const std::string tier : {"mapped", "emulated:lat=300ns"}) {
    const auto slow = made.Open(tier, {.sq_bits = GetParam()});
    const auto cached = made.Open(
        tier, {.cache = CachePolicy::kDynamic, .cache_bytes = 100 << 10, .sq_bits = GetParam()});
    ASSERT_TRUE(dram != nullptr && slow != nullptr && cached != nullptr);
    for (SearchParams options : ManyTierParams()) {
      SCOPED_TRACE(absl::StrCat(tier, " ", Name(*options.mode).data(), " k ", options.k));
      const TierAnswers expected = made.Search(dram, options);
      ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(made.Search(cached, options), expected));
      for (const Prefetch prefetch : {Prefetch::kAhead, Prefetch::kOff, Prefetch::kHop}) {
        options.prefetch = prefetch;
        const TierAnswers found = made.Search(slow, options);
        ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(found, expected));
        EXPECT_EQ(found.total.estimates, expected.total.estimates);
        EXPECT_EQ(found.total.node_reads, expected.total.node_reads);
      }
      // The file's codes are independent of these.
      if (options.mode == SearchMode::kQuantized) {
        options.prefetch.reset();
        ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(expected, made.Search(plain, options)));
      }
    }
  }
}

TEST_P(ScalarCodesTest, ASearchThatIsCutShortHasExactDistances) {
  const TierSample made(DType::kF32, Metric::kL2, 24);
  const auto index = made.Open("dram", {.sq_bits = GetParam()});
  ASSERT_TRUE(index != nullptr);
  Searcher searcher(index);
  for (const SearchMode mode : {SearchMode::kGraph, SearchMode::kMultiStart, SearchMode::kUpper}) {
    const SearchParams options{
        .k = 10, .ef_l1 = 40, .mode = mode, .budget = std::chrono::nanoseconds(1)};
    for (std::size_t q = 0; q < kTierQueries; ++q) {
      Answer answer;
      ASSERT_TRUE(searcher.Search(made.queries.Row(q * 37), options, &answer).ok());
      ASSERT_FALSE(answer.nearest.empty());
      for (const Neighbor& near : answer.nearest) {
        const Kernels& kernels = index->kernels();
        EXPECT_EQ(
            near.distance,
            kernels.ToDistance(kernels.one(
                reinterpret_cast<const std::byte*>(made.queries.Row(q * 37)),
                reinterpret_cast<const std::byte*>(made.queries.Row(near.label)), kernels.dim)));
      }
    }
  }
}

TEST_P(ScalarCodesTest, SaysWhereTheyLieAndIsAPlacementOfItsOwn) {
  const TierSample made(DType::kF32, Metric::kL2, 24);
  const auto index = made.Open("dram", {.sq_bits = GetParam()});
  ASSERT_TRUE(index != nullptr);
  const std::vector<Placement> placements = index->Placements();
  const auto codes = std::find_if(placements.begin(), placements.end(), [](const Placement& one) {
    return one.structure == "scalar_codes";
  });
  ASSERT_NE(codes, placements.end());
  EXPECT_EQ(codes->bytes, 1500u * 32);
  EXPECT_THAT(codes->where, HasSubstr(absl::StrCat(GetParam(), " bits")));
  const OpenOptions options{.slow = "dram"};
  EXPECT_FALSE(PlacementOf(options, GetParam()) == PlacementOf(options, 0));
}

TEST_P(ScalarCodesTest, ADeviceHasNone) {
  const TierSample made(DType::kU8, Metric::kL2, 24);
  const absl::Status status =
      Index::Open(made.path, {.slow = "nvme", .sq_bits = GetParam()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--bits 2"));
}

INSTANTIATE_TEST_SUITE_P(, ScalarCodesTest, testing::Values(4u, 8u),
                         [](const auto& info) { return absl::StrCat("sq", info.param); });

/// A table with one setting per placement.
void WriteTimes(const std::string& index, std::uint64_t content,
                const std::vector<std::pair<std::uint32_t, double>>& us_of_bits) {
  TunedTable table;
  table.content_hash = content;
  for (const auto& [bits, us] : us_of_bits) {
    TunedSetting setting;
    setting.params.k = 10;
    setting.params.ef_l0 = 40;
    setting.recall = setting.recall_low = setting.recall_p05 = 0.96;
    setting.mean_us = setting.p95_us = setting.p99_us = us;
    table.Put({.placement = PlacementOf({.slow = "dram"}, bits),
               .k = 10,
               .queries = 100,
               .origin = "test",
               .cpu = "this",
               .simd = "scalar",
               .settings = {setting}});
  }
  ASSERT_TRUE(WriteTunedTable(index, table).ok());
}

TEST(ScalarCodes, TheFastestThatIsTunedIsTaken) {
  const TierSample made(DType::kF32, Metric::kL2, 24);
  const std::uint64_t content = ReadInfo(made.path)->content_hash;
  const auto bits_of = [&](const OpenOptions& options) {
    const auto index = made.Open("dram", options);
    const std::string& fast = ImplOf(*index).placement().fast;
    return fast.ends_with("sq4") ? 4 : fast.ends_with("sq8") ? 8 : 0;
  };
  EXPECT_EQ(bits_of({}), 4) << "nothing is tuned: those of the file";
  WriteTimes(made.path, content, {{0, 30}, {4, 20}, {8, 25}});
  EXPECT_EQ(bits_of({}), 4);
  EXPECT_EQ(bits_of({.sq_bits = 0}), 0);
  EXPECT_EQ(bits_of({.sq_bits = 8}), 8);
  WriteTimes(made.path, content, {{0, 30}, {8, 25}});
  EXPECT_EQ(bits_of({}), 8);
  WriteTimes(made.path, content, {{0, 20}, {4, 20}, {8, 25}});
  EXPECT_EQ(bits_of({}), 0);
  WriteTimes(made.path, content, {{0, 20}});
  EXPECT_EQ(bits_of({}), 0);
}

TEST(ScalarCodes, ThoseOfTheFileAreUsedWhereL0IsInMemoryAndAreWhatOpenWouldMake) {
  const TierSample made(DType::kF32, Metric::kL2, 24);
  ASSERT_EQ(ReadInfo(made.path)->scalar_bits, 4u);
  EXPECT_EQ(ReadInfo(TierSample(DType::kU8, Metric::kL2, 24).path)->scalar_bits, 0u);
  for (const auto& [slow, bits] : {std::pair<const char*, std::uint32_t>("dram", 4),
                                   {"mapped", 4},
                                   {"emulated:lat=1ns", 0},
                                   {"nvme", 0}}) {
    const auto index = made.Open(slow, {});
    ASSERT_TRUE(index != nullptr) << slow;
    EXPECT_EQ(ImplOf(*index).placed().Context().scalar_bits, bits) << slow;
  }
  const auto index = made.Open("dram", {});
  const PlacedIndex& placed = ImplOf(*index).placed();
  Progress quiet(Progress::Show::kNever);
  const auto row = [&](NodeId id) {
    return id < placed.n1() ? placed.FastRow(id) : placed.Record(id);
  };
  const auto made_here = MakeScalarCodes(placed, *LearnScalarCodes(placed.kernels, 4, 1500, row),
                                         nullptr, **MakeTier("dram"), quiet);
  ASSERT_TRUE(made_here.ok()) << made_here.status();
  for (NodeId id = 0; id < 1500; ++id) {
    EXPECT_EQ(std::memcmp(placed.coded->FastRow(id), (*made_here)->view.FastRow(id), 12), 0) << id;
  }
}

TEST(ScalarCodes, OtherNumbersOfBitsAreRefused) {
  const TierSample made(DType::kU8, Metric::kL2, 24);
  for (const std::uint32_t bits : {1u, 2u, 5u, 16u})
    EXPECT_FALSE(Index::Open(made.path, {.slow = "dram", .sq_bits = bits}).ok());
}

}  // namespace
}  // namespace hmann
