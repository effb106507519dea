#include "index/construct/fast_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "index/base/units.h"
#include "index/format/header.h"

namespace hmann {
namespace {

double Gib(std::uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(1_GiB); }

struct Payload {
  std::uint64_t fast = 0, slow = 0;
};

/// What an index file of such a shape says of itself: links and vectors.
Payload PayloadOf(const Layers& layers, std::uint32_t dim) {
  Header header;
  header.dtype = DType::kU8;
  header.dim = dim;
  header.layers = layers;
  header.mean_degree.resize(layers.nodes.size());
  Payload payload;
  for (const StructureBytes& line : header.Info().bytes) {
    (line.tier == "fast" ? payload.fast : payload.slow) += line.formula;
  }
  return payload;
}

/// The rows of section 7 of doc/paper.md: N = 1e9, M = 48; the paper's figures are within
/// 1 %.
TEST(FastBytes, AndSlowOnesGiveThePapersFigures) {
  constexpr NodeId kBillion = 1000000000;
  const Payload bigann = PayloadOf(Layers::Make(kBillion, 160000000, 48), 128);
  EXPECT_EQ(bigann.fast, FastBytes({kBillion, 48, 128}, 160000000));
  EXPECT_NEAR(Gib(bigann.fast + bigann.slow), 534, 1);
  EXPECT_NEAR(Gib(bigann.fast + bigann.slow), 536, 0.01 * 536) << "the paper's";
  EXPECT_NEAR(Gib(bigann.slow), 458, 0.5);
  EXPECT_NEAR(Gib(bigann.slow), 462, 0.01 * 462) << "the paper's";
  const Payload deep = PayloadOf(Layers::Make(kBillion, 110000000, 48), 384);
  EXPECT_NEAR(Gib(deep.slow), 676, 0.5);
  EXPECT_NEAR(Gib(deep.slow), 681, 0.01 * 681) << "the paper's";
  // HNSW with its natural rate: the same formula.
  const Layers natural = Layers::Make(kBillion, kBillion / 48, 48);
  const Payload hnsw = PayloadOf(natural, 128);
  EXPECT_NEAR(Gib(hnsw.fast + hnsw.slow - natural.UpperLinkBytes()), 477, 0.5);
}

TEST(FastBytes, AreTheFormula) {
  EXPECT_EQ(FastBytes({1000, 5, 12, 8}, 100),
            (100 * 10 + 20 * 5 + 4 * 5) * 4u + 100 * 12u + 100 * 8u);  // N_i = 1000, 100, 20, 4
}

TEST(ReservedFastBytes, IsMigrationSpaceAndScratch) {
  EXPECT_EQ(ReservedFastBytes(100_GiB, 0), 2_GiB);
  EXPECT_EQ(ReservedFastBytes(1000_GiB, 0), 2_GiB) << "at most 2 GiB";
  EXPECT_EQ(ReservedFastBytes(50_MiB, 0), 1_MiB) << "2 %";
  EXPECT_GT(ReservedFastBytes(50_MiB, 4), ReservedFastBytes(50_MiB, 3));
}

std::uint64_t Needed(NodeId n, NodeId n1, std::uint64_t budget) {
  return Layers::Make(n, n1, 16).UpperLinkBytes() + std::uint64_t{n1} * (128 + 8) +
         ReservedFastBytes(budget, 2);
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
  EXPECT_EQ(*LargestN1({kNodes, 16, 128, 8}, 100_GiB, 2), kNodes - 1)
      << "one node at least stays in L0 alone";
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
      ASSERT_TRUE(
          absl::SimpleAtoi(message.substr(place, message.find(' ', place) - place), &budget))
          << message;
      const absl::StatusOr<NodeId> n1 = LargestN1({1000, 16, row_bytes, 4}, budget, threads);
      ASSERT_TRUE(n1.ok()) << n1.status();
      EXPECT_GE(*n1, 1u);
      EXPECT_FALSE(LargestN1({1000, 16, row_bytes, 4}, budget - 1, threads).ok())
          << "the smallest that does";
    }
  }
  EXPECT_EQ(LargestN1({1, 16, 128, 4}, 1_GiB, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hmann
