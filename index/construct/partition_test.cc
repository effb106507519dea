#include "index/construct/jobs/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "index/base/random.h"
#include "index/construct/jobs/joined_layer.h"
#include "index/construct/jobs/leaders.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

constexpr std::uint32_t kDim = 16;

/// The kernels and vectors that a partition needs.
struct Ground {
  explicit Ground(int threads = 2) : pool(threads) {}
  ThreadPool pool;
  Progress quiet{Progress::Show::kNever};
  TaskContext job{pool, quiet, nullptr};
  Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, kDim);
};

StoredVectors Vectors(const Kernels& kernels, NodeId n,
                      const std::function<std::uint8_t(NodeId, std::uint32_t)>& component) {
  StoredVectors vectors;
  vectors.stride = RowStride(kernels);
  vectors.rows = *Buffer::Allocate(n * vectors.stride);
  for (NodeId i = 0; i < n; ++i) {
    for (std::uint32_t c = 0; c < kDim; ++c)
      vectors.rows.data()[i * vectors.stride + c] = std::byte{component(i, c)};
  }
  return vectors;
}

std::uint8_t Uniform(NodeId i, std::uint32_t c) {
  return static_cast<std::uint8_t>(RandomBelow(7, std::uint64_t{i} * kDim + c, 256));
}

std::vector<std::uint32_t> All(NodeId n) {
  std::vector<std::uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

/// The first split of all vectors: the members of each group, and an order of the
/// vectors.
struct Groups {
  Groups(const StoredVectors& vectors, NodeId n, const PartitionOptions& options, Ground& ground) {
    const FirstSplit split = *FirstSplit::Make(
        ground.kernels, vectors.stride, n, [&](std::size_t i) { return vectors.Row(i); }, options);
    NearestLeaders find = split.Finder(ground.kernels, options);
    std::vector<std::uint32_t> nearest(std::size_t{n} * split.fan()), first(n);
    for (NodeId begin = 0; begin < n; begin += find.rows_at_once()) {
      std::vector<const std::byte*> rows;
      for (NodeId i = begin; i < std::min<std::size_t>(n, begin + find.rows_at_once()); ++i)
        rows.push_back(vectors.Row(i));
      find.Find(rows, nearest.data() + std::size_t{begin} * split.fan());
    }
    for (NodeId i = 0; i < n; ++i) first[i] = nearest[std::size_t{i} * split.fan()];
    Gather(first, 1, split.groups(), &order, &ends);
    Gather(nearest, split.fan(), split.groups(), &members, &ends);
  }
  std::span<const NodeId> Members(std::size_t group) const {
    const std::size_t begin = group == 0 ? 0 : ends[group - 1];
    return {members.data() + begin, ends[group] - begin};
  }
  std::vector<std::uint32_t> order;
  std::vector<NodeId> members;
  std::vector<std::size_t> ends;
};

/// Returns the leaves that all groups are split into, and checks that they fit and that
/// they are the same where vectors are copied some at a time.
std::vector<std::vector<NodeId>> Leaves(const Groups& groups, const StoredVectors& vectors,
                                        const Kernels& kernels, const PartitionOptions& options) {
  std::vector<std::vector<NodeId>> leaves, copied;
  ThreadPool pool(2);
  const auto all = NodeVectors::InMemory(vectors, static_cast<NodeId>(groups.order.size()));
  for (std::size_t g = 0; g < groups.ends.size(); ++g) {
    ForEachLeaf(groups.Members(g), vectors, kernels, options, [&](std::span<const NodeId> leaf) {
      EXPECT_LE(leaf.size(), options.leaf);
      leaves.emplace_back(leaf.begin(), leaf.end());
    });
    EXPECT_TRUE(ForEachLeaf(groups.Members(g), all, kernels, options, pool,
                            [&](std::span<const NodeId> leaf) {
                              copied.emplace_back(leaf.begin(), leaf.end());
                            })
                    .ok());
  }
  EXPECT_TRUE(copied == leaves);
  return leaves;
}

struct Counts {
  std::size_t covered = 0;  ///< nodes that are in a leaf
  std::size_t members = 0;  ///< members of all leaves
};

Counts CountMembers(NodeId n, const std::function<std::uint8_t(NodeId, std::uint32_t)>& component,
                    const PartitionOptions& options) {
  Ground ground;
  const StoredVectors vectors = Vectors(ground.kernels, n, component);
  const Groups groups(vectors, n, options, ground);
  std::vector<std::uint32_t> order = groups.order;
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, All(n)) << "each vector has a place";
  Counts counts;
  std::vector<bool> seen(n);
  for (const auto& leaf : Leaves(groups, vectors, ground.kernels, options)) {
    EXPECT_EQ(std::set<NodeId>(leaf.begin(), leaf.end()).size(), leaf.size());
    counts.members += leaf.size();
    for (const NodeId member : leaf) seen[member] = true;
  }
  counts.covered = static_cast<std::size_t>(std::count(seen.begin(), seen.end(), true));
  return counts;
}

const PartitionOptions kSmall{.leaders = 20, .fan = 3, .fan_below = 2, .leaf = 50};

/// Too many leaders to compare all: 90 of 3000 vectors, in 26 neighborhoods.
const PartitionOptions kMany{.leaders = 20, .fan = 3, .fan_below = 2, .group = 100, .leaf = 50};

TEST(Partition, PutsEveryVectorIntoLeavesThatFit) {
  for (const PartitionOptions& options : {kSmall, kMany}) {
    for (const NodeId n :
         {NodeId{2}, NodeId{49}, NodeId{50}, NodeId{51}, NodeId{700}, NodeId{9000}}) {
      const Counts counts = CountMembers(n, Uniform, options);
      EXPECT_EQ(counts.covered, n);
      EXPECT_LE(counts.members, std::size_t{n} * options.fan * options.fan_below) << n;
    }
  }
}

TEST(Partition, GroupsKeepTheirSizeWhereLeadersAreMany) {
  Ground ground;
  const StoredVectors vectors = Vectors(ground.kernels, 9000, Uniform);
  const auto groups = [&](NodeId n) { return Groups(vectors, n, kMany, ground).ends.size(); };
  EXPECT_EQ(groups(3000), 90u);
  EXPECT_EQ(groups(9000), 270u);
}

TEST(Partition, CutsWhatCannotBeToldApart) {
  // One-hot vectors, which are all equally far from each other. There are many copies of
  // each, because there are only 16. And all vectors equal.
  const Counts hot = CountMembers(
      4000, [](NodeId i, std::uint32_t c) { return i % kDim == c ? 200 : 0; }, kSmall);
  EXPECT_EQ(hot.covered, 4000u);
  EXPECT_LE(hot.members, 4000u * kSmall.fan * kSmall.fan_below);
  const Counts same = CountMembers(
      4000, [](NodeId, std::uint32_t) { return 9; }, kSmall);
  EXPECT_EQ(same.covered, 4000u);
  EXPECT_LE(same.members, 4000u * kSmall.fan * kSmall.fan_below);
}

TEST(Partition, SplitsADenseCellToo) {
  const auto half_dense = [](NodeId i, std::uint32_t c) {
    return i % 2 == 0 ? Uniform(i, c) : static_cast<std::uint8_t>(100 + Uniform(i, c) % 3);
  };
  const Counts counts = CountMembers(9000, half_dense, kSmall);
  EXPECT_EQ(counts.covered, 9000u);
  EXPECT_LE(counts.members, 9000u * kSmall.fan * kSmall.fan_below);
}

/// Returns the lists of all nodes after a join in memory; `ordered`: the vectors by node.
std::vector<std::vector<Candidate>> Join(NodeId n, const PartitionOptions& options,
                                         std::uint32_t length, int threads,
                                         StoredVectors* ordered) {
  Ground ground(threads);
  const StoredVectors vectors = Vectors(ground.kernels, n, Uniform);
  const std::vector<std::uint32_t> all = All(n);
  const NodeVectors rows = NodeVectors::InMemory(vectors, n);
  const MemoryArtifacts work;
  std::vector<PhaseTime> times;
  Phases phases(ground.quiet, times);
  JoinedLayer layer({.kernels = ground.kernels,
                     .stride = vectors.stride,
                     .unique = all,
                     .copy = rows.Copier(),
                     .m = length / 2,
                     .partition = options},
                    Stages("l0", "", work, phases, ground.job));
  const std::vector<std::uint32_t> order = *layer.Order();
  *ordered = *rows.Gather(order, ground.pool);
  EXPECT_TRUE(layer.Make("lists", order, order).ok());
  StoredLists stored = *layer.Lists();
  EXPECT_TRUE(stored.NeedRest({0, n}).ok());
  std::vector<std::vector<Candidate>> lists(n);
  std::vector<NodeId> scratch;
  for (NodeId i = 0; i < n; ++i) {
    stored.ForEach(i, scratch, [&](NodeId other) {
      lists[i].push_back({ground.kernels.one(ordered->Row(i), ordered->Row(other), kDim), other});
    });
  }
  return lists;
}

std::vector<std::vector<Candidate>> Exact(const StoredVectors& vectors, NodeId n,
                                          std::uint32_t length) {
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, kDim);
  std::vector<std::vector<Candidate>> lists(n);
  for (NodeId i = 0; i < n; ++i) {
    for (NodeId j = 0; j < n; ++j)
      if (i != j) lists[i].push_back({kernels.one(vectors.Row(i), vectors.Row(j), kDim), j});
    std::sort(lists[i].begin(), lists[i].end());
    if (lists[i].size() > length) lists[i].resize(length);
  }
  return lists;
}

MATCHER_P(SameCandidates, expected, "") {
  return std::equal(
      arg.begin(), arg.end(), expected.begin(), expected.end(),
      [](const Candidate& a, const Candidate& b) { return a.key == b.key && a.id == b.id; });
}

TEST(JoinedLists, OfOneLeafIsExact) {
  for (const NodeId n : {NodeId{1}, NodeId{2}, NodeId{3}, NodeId{20}, NodeId{65}, NodeId{400}}) {
    StoredVectors ordered;
    const auto lists = Join(n, {}, 16, 2, &ordered);
    const auto exact = Exact(ordered, n, 16);
    for (NodeId i = 0; i < n; ++i) EXPECT_THAT(lists[i], SameCandidates(exact[i])) << i;
  }
}

TEST(JoinedLists, FindsMostOfTheNearestWhateverTheThreads) {
  constexpr NodeId kNodes = 3000;
  for (const PartitionOptions& options : {kSmall, kMany}) {
    StoredVectors ordered;
    const auto lists = Join(kNodes, options, 10, 1, &ordered);
    for (const int threads : {2, 7}) {
      StoredVectors again;
      const auto same = Join(kNodes, options, 10, threads, &again);
      for (NodeId i = 0; i < kNodes; ++i) ASSERT_THAT(same[i], SameCandidates(lists[i])) << i;
    }
    const auto exact = Exact(ordered, kNodes, 10);
    std::size_t found = 0;
    for (NodeId i = 0; i < kNodes; ++i) {
      EXPECT_TRUE(std::is_sorted(lists[i].begin(), lists[i].end()));
      for (const Candidate& candidate : exact[i]) {
        found += std::count_if(lists[i].begin(), lists[i].end(),
                               [&](const Candidate& one) { return one.id == candidate.id; });
      }
    }
    // Uniform vectors are the hardest: 300 of 3000 are compared, and half of the nearest
    // are found.
    EXPECT_GT(static_cast<double>(found) / (10.0 * kNodes), 0.4);
  }
}

}  // namespace
}  // namespace hmann
