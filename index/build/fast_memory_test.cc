#include "index/build/fast_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "index/base/units.h"

namespace hmann {
namespace {

double Gib(std::uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(1_GiB); }

/// The rows of section 7 of the readings: N = 1e9, M = 48; the paper's figures are within 1 %.
TEST(PayloadOf, GivesThePapersFigures) {
  constexpr NodeId kBillion = 1000000000;
  const PayloadBytes bigann = PayloadOf(Layers::Make(kBillion, 160000000, 48), 128);
  EXPECT_NEAR(Gib(bigann.fast() + bigann.slow()), 534, 1);
  EXPECT_NEAR(Gib(bigann.fast() + bigann.slow()), 536, 0.01 * 536) << "the paper's";
  EXPECT_NEAR(Gib(bigann.slow()), 458, 0.5);
  EXPECT_NEAR(Gib(bigann.slow()), 462, 0.01 * 462) << "the paper's";
  const PayloadBytes deep = PayloadOf(Layers::Make(kBillion, 110000000, 48), 384);
  EXPECT_NEAR(Gib(deep.slow()), 676, 0.5);
  EXPECT_NEAR(Gib(deep.slow()), 681, 0.01 * 681) << "the paper's";
  // HNSW with its natural rate: the same formula.
  const PayloadBytes hnsw = PayloadOf(Layers::Make(kBillion, kBillion / 48, 48), 128);
  EXPECT_NEAR(Gib(hnsw.l0_links + hnsw.fast_vectors + hnsw.slow_vectors), 477, 0.5);
}

TEST(PayloadOf, IsTheFormulaLineByLine) {
  const PayloadBytes bytes = PayloadOf(Layers::Make(1000, 100, 5), 12);  // N_i = 1000, 100, 20, 4
  EXPECT_EQ(bytes.l0_links, 1000 * 10 * 4u);
  EXPECT_EQ(bytes.upper_links, (100 * 10 + 20 * 5 + 4 * 5) * 4u);
  EXPECT_EQ(bytes.fast_vectors, 100 * 12u);
  EXPECT_EQ(bytes.slow_vectors, 900 * 12u);
  EXPECT_EQ(bytes.fast(), bytes.upper_links + bytes.fast_vectors);
  EXPECT_EQ(bytes.slow(), bytes.l0_links + bytes.slow_vectors);
}

TEST(ReservedFastBytes, IsMigrationSpaceAndScratch) {
  EXPECT_EQ(ReservedFastBytes(100_GiB, 0), 2_GiB);
  EXPECT_EQ(ReservedFastBytes(1000_GiB, 0), 2_GiB) << "at most 2 GiB";
  EXPECT_EQ(ReservedFastBytes(50_MiB, 0), 1_MiB) << "2 %";
  EXPECT_GT(ReservedFastBytes(50_MiB, 4), ReservedFastBytes(50_MiB, 3));
}

std::uint64_t Needed(NodeId n, NodeId n1, std::uint64_t budget) {
  return PayloadOf(Layers::Make(n, n1, 16), 128).fast() + std::uint64_t{n1} * 8 + ReservedFastBytes(budget, 2);
}

TEST(LargestN1, IsTheLargestThatFits) {
  constexpr NodeId kNodes = 1000000;
  for (const std::uint64_t budget : {2_MiB, 3_MiB, 17_MiB, 96_MiB, 200_MiB}) {
    SCOPED_TRACE(absl::StrCat("budget ", budget));
    const absl::StatusOr<NodeId> n1 = LargestN1({kNodes, 16, 128, 8}, budget, 2);
    ASSERT_TRUE(n1.ok()) << n1.status();
    EXPECT_LE(Needed(kNodes, *n1, budget), budget);
    EXPECT_GT(Needed(kNodes, *n1 + 1, budget), budget);
  }
  EXPECT_EQ(*LargestN1({kNodes, 16, 128, 8}, 100_GiB, 2), kNodes - 1) << "one node at least stays in L0 alone";
}

TEST(LargestN1, RefusalNamesABudgetThatWorks) {
  for (const std::uint32_t row_bytes : {1u, 128u, 100000u}) {
    for (const int threads : {1, 64}) {
      const absl::StatusOr<NodeId> refused = LargestN1({1000, 16, row_bytes, 4}, 1000, threads);
      ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
      const std::string message(refused.status().message());
      EXPECT_THAT(message, testing::HasSubstr("--fast-memory 1000 "));
      const std::size_t place = message.find(" need ") + 6;
      std::uint64_t budget = 0;
      ASSERT_TRUE(absl::SimpleAtoi(message.substr(place, message.find(' ', place) - place), &budget)) << message;
      const absl::StatusOr<NodeId> n1 = LargestN1({1000, 16, row_bytes, 4}, budget, threads);
      ASSERT_TRUE(n1.ok()) << n1.status();
      EXPECT_GE(*n1, 1u);
      EXPECT_FALSE(LargestN1({1000, 16, row_bytes, 4}, budget - 1, threads).ok()) << "the smallest that does";
    }
  }
  EXPECT_EQ(LargestN1({1, 16, 128, 4}, 1_GiB, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hmann
