#include "index/graph/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "index/base/random.h"
#include "index/distance/reference.h"

namespace hmann {
namespace {

/// n random stored rows.
std::vector<std::byte> RandomRows(const Kernels& kernels, NodeId n, std::uint64_t seed) {
  std::vector<std::byte> rows(std::size_t{n} * kernels.row_bytes);
  for (NodeId i = 0; i < n; ++i) {
    std::vector<std::byte> vector(kernels.dim * SizeOf(QueryType(kernels.dtype)));
    for (std::uint32_t c = 0; c < kernels.dim; ++c) {
      const std::uint64_t counter = std::uint64_t{i} * kernels.dim + c;
      const auto small = static_cast<std::uint8_t>(1 + RandomBelow(seed, counter, 7));
      const auto real = static_cast<float>(RandomUnit(seed, counter) - 0.5);
      if (IsFloat(kernels.dtype)) {
        std::memcpy(&vector[c * sizeof(real)], &real, sizeof(real));
      } else {
        vector[c] = std::byte{small};
      }
    }
    EXPECT_TRUE(
        EncodeRow(kernels, vector.data(), rows.data() + std::size_t{i} * kernels.row_bytes).ok());
  }
  return rows;
}

/// The heuristic as the paper states it, in double precision.
std::vector<NodeId> SelectSlowly(const Kernels& kernels, const std::vector<std::byte>& rows,
                                 NodeId node, std::vector<NodeId> candidates, std::uint32_t most,
                                 double alpha) {
  const auto distance = [&](NodeId a, NodeId b) {
    return MeasureReference(kernels.dtype, kernels.metric,
                            rows.data() + std::size_t{a} * kernels.row_bytes,
                            rows.data() + std::size_t{b} * kernels.row_bytes, kernels.dim)
        .distance;
  };
  std::sort(candidates.begin(), candidates.end(), [&](NodeId a, NodeId b) {
    return distance(node, a) != distance(node, b) ? distance(node, a) < distance(node, b) : a < b;
  });
  std::vector<NodeId> kept;
  for (const double factor : {1.0, alpha}) {
    for (NodeId candidate : candidates) {
      const bool shadowed = std::any_of(kept.begin(), kept.end(), [&](NodeId k) {
        return k == candidate || factor * distance(candidate, k) < distance(candidate, node);
      });
      if (!shadowed && kept.size() < most) kept.push_back(candidate);
    }
  }
  return kept;
}

TEST(NeighborSelector, KeepsWhatTheDefinitionKeeps) {
  NeighborSelector selector;
  for (const DType dtype : {DType::kU8, DType::kI8, DType::kF32, DType::kF16}) {
    for (const Metric metric : {Metric::kL2, Metric::kInnerProduct}) {
      for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(absl::StrCat("dtype ", static_cast<int>(dtype), ", metric ",
                                  static_cast<int>(metric), ", seed ", seed));
        const Kernels kernels =
            *ChooseKernels(dtype, metric, 1 + static_cast<std::uint32_t>(RandomBelow(seed, 0, 24)));
        const NodeId n = 2 + static_cast<NodeId>(RandomBelow(seed, 1, 80));
        const auto most = static_cast<std::uint32_t>(1 + RandomBelow(seed, 2, 16));
        const std::vector<std::byte> rows = RandomRows(kernels, n, seed);
        std::vector<Candidate> candidates;
        std::vector<NodeId> ids;
        for (NodeId id = 1; id < n; ++id) {
          candidates.push_back(
              {kernels.one(rows.data(), rows.data() + std::size_t{id} * kernels.row_bytes,
                           kernels.dim),
               id});
          ids.push_back(id);
        }
        std::sort(candidates.begin(), candidates.end());
        const LayerView layer{nullptr, n, 0, rows.data(), kernels.row_bytes, &kernels};
        for (const float alpha : {1.0f, metric == Metric::kInnerProduct ? 1.0f : 1.25f}) {
          std::vector<NodeId> selected = {77};
          selector.Select(candidates, most, alpha, layer, &selected);
          EXPECT_EQ(selected, SelectSlowly(kernels, rows, 0, ids, most, alpha)) << alpha;
        }
      }
    }
  }
}

TEST(NeighborSelector, OnALineKeepsTheNextOnEachSide) {
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, 1);
  std::vector<std::byte> rows;
  rows.reserve(21);
  for (int i = 0; i < 21; ++i) rows.push_back(static_cast<std::byte>(i));
  std::vector<Candidate> candidates;
  for (NodeId id = 0; id < 21; ++id) {
    if (id != 10) candidates.push_back({kernels.one(&rows[10], &rows[id], 1), id});
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<NodeId> selected;
  const LayerView line{nullptr, 21, 0, rows.data(), 1, &kernels};
  NeighborSelector().Select(candidates, 8, 1, line, &selected);
  EXPECT_THAT(selected, testing::ElementsAre(9, 11))
      << "all others are nearer to one of these than to 10";
  NeighborSelector().Select(candidates, 8, 1.5f, line, &selected);
  EXPECT_THAT(selected, testing::ElementsAre(9, 11, 4, 16))
      << "the first whose way over these is not shorter by the factor";
}

TEST(NeighborSelector, OfNoneIsNone) {
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, 1);
  std::vector<NodeId> selected = {1, 2};
  NeighborSelector().Select({}, 8, 1.2f, {nullptr, 0, 0, nullptr, 1, &kernels}, &selected);
  EXPECT_TRUE(selected.empty());
}

}  // namespace
}  // namespace hmann
