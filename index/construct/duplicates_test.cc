#include "index/construct/graph/duplicates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "index/base/random.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

TEST(GroupEqual, GroupsWhatIsEqualWhateverTheHashes) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    // Few values give many copies. Some hashes belong to several values.
    constexpr std::uint32_t kRows = 9000;
    std::vector<std::uint64_t> values(kRows);
    std::vector<HashedRow> hashed;
    std::map<std::uint64_t, std::vector<std::uint32_t>> groups;
    for (std::uint32_t i = 0; i < kRows; ++i) {
      const std::uint64_t value = RandomBelow(seed, i, seed * 2000);
      values[i] = value;
      hashed.push_back({value / 3, i});
      groups[value].push_back(i);
    }
    std::vector<std::uint32_t> unique;
    std::vector<std::vector<std::uint32_t>> expected;
    for (const auto& [value, members] : groups) {
      unique.push_back(members[0]);
      if (members.size() > 1) expected.push_back(members);
    }
    std::sort(unique.begin(), unique.end());
    std::sort(expected.begin(), expected.end());
    const DuplicateGroups found = GroupEqual(
        hashed, [&](std::uint32_t a, std::uint32_t b) { return values[a] == values[b]; });
    EXPECT_EQ(found.unique, unique);
    EXPECT_EQ(found.groups, expected);
    EXPECT_EQ(found.copies, kRows - unique.size());
  }
}

/// Whether `b` is found as a copy of `a`: their hashes lead to a comparison.
bool AreCopies(DType dtype, Metric metric, const std::vector<float>& a,
               const std::vector<float>& b) {
  const auto dim = static_cast<std::uint32_t>(a.size());
  const Kernels kernels = *ChooseKernels(dtype, metric, dim);
  std::vector<std::byte> rows[2];
  for (const auto& [from, row] : {std::pair(&a, &rows[0]), std::pair(&b, &rows[1])}) {
    row->resize(kernels.row_bytes);
    std::vector<std::uint8_t> bytes(from->begin(), from->end());
    const void* vector = IsFloat(dtype) ? static_cast<const void*>(from->data()) : bytes.data();
    EXPECT_TRUE(EncodeRow(kernels, QueryType(dtype), vector, row->data()).ok());
  }
  CopyFinder finder(kernels);
  const bool same =
      finder.Hash(rows[0].data()) >> kExactBits == finder.Hash(rows[1].data()) >> kExactBits;
  EXPECT_EQ(finder.AreCopies(rows[0].data(), rows[1].data()),
            finder.AreCopies(rows[1].data(), rows[0].data()));
  return same && finder.AreCopies(rows[0].data(), rows[1].data());
}

std::vector<float> Times(std::vector<float> vector, float scale) {
  for (float& x : vector) x *= scale;
  return vector;
}

TEST(CopyFinder, SeesWhatTheMetricSees) {
  using enum DType;
  using enum Metric;
  const std::vector<float> one = {3, 0, 7, 1, 2, 5, 0, 4, 6, 1},
                           zeros = {3, -0.0f, 7, 1, 2, 5, -0.0f, 4, 6, 1};
  for (const DType dtype : {kF32, kF16, kU8}) {
    EXPECT_TRUE(AreCopies(dtype, kCosine, one, Times(one, 13)));
    EXPECT_FALSE(AreCopies(dtype, kL2, one, Times(one, 13)));
    EXPECT_FALSE(AreCopies(dtype, kInnerProduct, one, Times(one, 13)));
    for (const Metric metric : {kL2, kInnerProduct, kCosine}) {
      EXPECT_TRUE(AreCopies(dtype, metric, one, one));
      std::vector<float> other = one;
      other[2] += 1;
      EXPECT_FALSE(AreCopies(dtype, metric, one, other));
      if (IsFloat(dtype)) {
        EXPECT_TRUE(AreCopies(dtype, metric, one, zeros));
      }
    }
  }
  // Rounding, and a little more than that.
  std::vector<float> near = Times(one, 0.3f), apart = near;
  near[4] *= 1 + 1e-5f;
  apart[4] *= 1 + 1e-2f;
  EXPECT_TRUE(AreCopies(kF32, kCosine, one, near));
  EXPECT_FALSE(AreCopies(kF32, kL2, Times(one, 0.3f), near));
  EXPECT_FALSE(AreCopies(kF32, kCosine, one, apart));
}

/// A narrow cluster gives many rows one hash. They are no copies, and comparing each with
/// all would take long.
TEST(GroupEqual, ComparesARowWithFewOthers) {
  constexpr std::uint32_t kRows = 5000;
  std::vector<HashedRow> hashed;
  for (std::uint32_t i = 0; i < kRows; ++i) hashed.push_back({i % 2500, i});
  std::size_t compared = 0;
  const DuplicateGroups found = GroupEqual(hashed, [&](std::uint32_t a, std::uint32_t b) {
    ++compared;
    return a % 2500 == b % 2500;
  });
  EXPECT_EQ(found.copies, 2500u) << "equal rows are next to each other";
  EXPECT_LE(compared, 10 * kRows);
}

TEST(LinkDuplicates, HangsCopiesInATreeBelowTheFirst) {
  constexpr NodeId kNodes = 40;
  const std::vector<std::byte> rows(kNodes);
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, 1);
  InsertionGraph graph = *InsertionGraph::Make({kNodes}, {4}, rows.data(), 1, kernels);
  std::vector<std::vector<NodeId>> groups = {{}, {35, 36}, {39}, {}};
  for (NodeId node = 3; node < 33; ++node) groups[0].push_back(node);
  const auto links = [&](NodeId node) {
    const NodeId* list = graph.Links(0, node);
    return std::vector<NodeId>(list, list + CountLinks(list, 4));
  };
  for (std::uint32_t i = 0; i < 4; ++i) graph.Links(0, 3)[i] = i < 3 ? i : 39;  // a full list
  LinkDuplicates(groups, graph);
  EXPECT_THAT(links(3), testing::ElementsAre(0, 1, 4, 5))
      << "the last links make room for the children";
  EXPECT_THAT(links(4), testing::ElementsAre(3, 6, 7));
  EXPECT_THAT(links(16), testing::ElementsAre(9, 30, 31));
  EXPECT_THAT(links(17), testing::ElementsAre(9, 32)) << "one child is left";
  EXPECT_THAT(links(32), testing::ElementsAre(17));
  EXPECT_THAT(links(35), testing::ElementsAre(36));
  EXPECT_THAT(links(36), testing::ElementsAre(35));
  EXPECT_TRUE(links(38).empty());
  EXPECT_TRUE(links(39).empty()) << "alone in its group";
}

}  // namespace
}  // namespace hmann
