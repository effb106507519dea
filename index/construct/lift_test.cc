// Links under inner product, made in one more dimension.
#include "index/construct/graph/lift.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "./index/base/random.h"
#include "datasets/toolbox/generate.h"
#include "hmann/progress.h"
#include "index/base/thread_pool.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

constexpr std::uint32_t kLiftDim = 24;
constexpr NodeId kLiftNodes = 3000;

/// Evenly spread directions, each with the norm that `norm` gives.
struct Lifted {
  explicit Lifted(double (*norm)(NodeId)) {
    rows.stride = RowStride(kernels);
    rows.rows = *Buffer::Allocate(kLiftNodes * rows.stride);
    const std::vector<float> floats = NormalFloats();
    for (NodeId i = 0; i < kLiftNodes; ++i) {
      const float* from = floats.data() + std::size_t{i} * kLiftDim;
      const double length = std::sqrt(std::inner_product(from, from + kLiftDim, from, 0.0));
      auto* row = reinterpret_cast<float*>(rows.rows.data() + i * rows.stride);
      for (std::uint32_t c = 0; c < kLiftDim; ++c)
        row[c] = static_cast<float>(from[c] / length * norm(i));
    }
    LiftRows(kernels, kLiftNodes, job, rows);
  }

  /// Twelve uniform numbers from a counter sum to a nearly normal one.
  static std::vector<float> NormalFloats() {
    std::vector<float> floats(std::size_t{kLiftNodes} * kLiftDim);
    for (std::size_t i = 0; i < floats.size(); ++i) {
      for (std::uint64_t u = 0; u < 12; ++u)
        floats[i] += static_cast<float>(RandomBelow(3, i * 12 + u, 1 << 20)) / (1 << 20) - 0.5f;
    }
    return floats;
  }

  ThreadPool pool{2};
  Progress quiet{Progress::Show::kNever};
  TaskContext job{pool, quiet, nullptr};
  Kernels kernels = *ChooseKernels(DType::kF32, Metric::kInnerProduct, kLiftDim);
  StoredVectors rows;
  NodeVectors by_node() const { return NodeVectors::InMemory(rows, kLiftNodes); }
};

double Alike(NodeId) { return 1; }
double Spread(NodeId i) { return std::exp(2.0 * ((i * 7919) % kLiftNodes) / kLiftNodes); }

std::vector<NodeId> Shuffled() {
  std::vector<NodeId> nodes(kLiftNodes);
  for (NodeId i = 0; i < kLiftNodes; ++i)
    nodes[i] = static_cast<NodeId>(std::uint64_t{i} * 1237 % kLiftNodes);
  return nodes;
}

TEST(Lift, TheNearestByL2AreTheLargestInnerProducts) {
  const Lifted lifted(Spread);
  const Kernels l2 = *LiftedKernels(lifted.kernels);
  std::vector<std::byte> query(lifted.rows.stride);
  std::copy_n(lifted.rows.Row(17), kLiftDim * sizeof(float), query.begin());  // and 0 behind it
  std::vector<std::pair<float, NodeId>> by_product, by_l2;
  for (NodeId i = 0; i < kLiftNodes; ++i) {
    const std::byte* row = lifted.rows.Row(i);
    by_product.emplace_back(
        lifted.kernels.ToDistance(lifted.kernels.one(query.data(), row, kLiftDim)), i);
    by_l2.emplace_back(l2.ToDistance(l2.one(query.data(), row, kLiftDim + 1)), i);
  }
  std::sort(by_product.begin(), by_product.end());
  std::sort(by_l2.begin(), by_l2.end());
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(by_product[i].second, by_l2[i].second) << i;
}

TEST(Lift, RankByNormPutsTheLargestFirst) {
  const Lifted lifted(Spread);
  std::vector<NodeId> ranked = Shuffled();
  RankByNorm(lifted.kernels, lifted.by_node(), ranked);
  for (NodeId i = 1; i < kLiftNodes; ++i)
    EXPECT_GE(Spread(ranked[i - 1]), Spread(ranked[i]) * 0.9999);
}

TEST(Lift, TheNormTellsMoreWhereNormsAreSpread) {
  const Lifted spread(Spread);
  EXPECT_TRUE(
      *NormTellsMore(spread.kernels, spread.by_node(), Shuffled(), kLiftNodes / 6, spread.job));
  // A rank that is better than the norm's, because it holds the answers themselves.
  std::vector<NodeId> by_norm = Shuffled();
  RankByNorm(spread.kernels, spread.by_node(), by_norm);
  EXPECT_FALSE(
      *NormTellsMore(spread.kernels, spread.by_node(), by_norm, kLiftNodes / 6, spread.job));
  EXPECT_FALSE(*NormTellsMore(spread.kernels, spread.by_node(), Shuffled(), 0, spread.job));
}

TEST(Lift, AlikeNormsAreNoReasonAgainstTheDegree) {
  const Lifted alike(Alike);
  // By degree: first the rows that are near most others, as by the mean inner product.
  std::vector<NodeId> ranked = Shuffled();
  std::vector<double> mean(kLiftDim);
  for (NodeId i = 0; i < kLiftNodes; ++i) {
    const auto* row = reinterpret_cast<const float*>(alike.rows.Row(i));
    for (std::uint32_t c = 0; c < kLiftDim; ++c) mean[c] += row[c];
  }
  const auto toward = [&](NodeId i) {
    const auto* row = reinterpret_cast<const float*>(alike.rows.Row(i));
    return std::inner_product(mean.begin(), mean.end(), row, 0.0);
  };
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](NodeId a, NodeId b) { return toward(a) > toward(b); });
  EXPECT_FALSE(*NormTellsMore(alike.kernels, alike.by_node(), ranked, kLiftNodes / 6, alike.job));
}

}  // namespace
}  // namespace hmann
