#include "index/construct/fast_memory.h"

#include <gtest/gtest.h>

#include "index/base/units.h"
#include "index/format/header.h"

namespace hmann {
namespace {

double Gib(std::uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(1_GiB); }

struct Payload {
  std::uint64_t fast = 0, slow = 0;
};

/// The payload that an index file of this shape records: links and vectors.
Payload PayloadOf(const Layers& layers, std::uint32_t dim) {
  Header header;
  header.dtype = DType::kU8;
  header.dim = header.row_bytes = dim;
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

TEST(ReservedFastBytes, IsReadBuffersAndScratch) {
  const std::uint64_t scratch = ReservedFastBytes(0, 1);
  EXPECT_EQ(ReservedFastBytes(0, 8), 8 * scratch) << "L0 is addressable";
  EXPECT_EQ(ReservedFastBytes(100_GiB, 8), 8 * (scratch + 16_MiB));
  EXPECT_EQ(ReservedFastBytes(50_MiB, 8), 8 * scratch + 1_MiB) << "2 %";
}

}  // namespace
}  // namespace hmann
