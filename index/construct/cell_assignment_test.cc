#include "index/construct/jobs/cell_assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "index/codes/encoder.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

/// A built index, with its vectors by id.
struct Built {
  explicit Built(const BuildOptions& options)
      : file(Open(options)),
        kernels(*ChooseKernels(file.info().dtype, Metric::kL2, file.info().dim)) {}

  static IndexFile Open(const BuildOptions& options) {
    MustBuild(options);
    auto opened = IndexFile::Open(options.out);
    HMANN_CHECK(opened.ok());
    return *std::move(opened);
  }
  NodeId n() const { return file.layers().n(); }
  NodeId n1() const { return file.layers().n1(); }
  const std::byte* Row(NodeId id) const {
    return id < n1() ? file.fast_rows().data() + id * file.fast_row_stride()
                     : file.l0().data() + file.records().Offset(id);
  }
  DistanceKey Between(NodeId a, NodeId b) const { return kernels.one(Row(a), Row(b), kernels.dim); }
  /// Promoted nodes by distance from `id`.
  std::vector<std::pair<DistanceKey, NodeId>> Nearest(NodeId id) const {
    std::vector<std::pair<DistanceKey, NodeId>> all;
    for (NodeId centroid = 0; centroid < n1(); ++centroid)
      all.emplace_back(Between(id, centroid), centroid);
    std::sort(all.begin(), all.end());
    return all;
  }

  IndexFile file;
  Kernels kernels;
};

TEST(Centroids, AreNearlyAlwaysTheNearestPromotedNodes) {
  const SampleFolder folder;
  for (const auto& [dtype, metric] :
       {std::pair(DType::kU8, Metric::kL2), std::pair(DType::kF32, Metric::kInnerProduct),
        std::pair(DType::kF32, Metric::kCosine)}) {
    BuildOptions options = SmallBuild(folder, dtype, metric, 3000);
    options.replicas = 2;
    const Built index(options);
    const Cells cells(index.n(), index.n1(), index.file.cells(), index.file.second_centroids());
    int first = 0, second = 0;
    const NodeId others = index.n() - index.n1();
    for (NodeId id = index.n1(); id < index.n(); ++id) {
      const auto nearest = index.Nearest(id);
      const NodeId second_centroid = index.file.second_centroids()[id - index.n1()];
      EXPECT_NE(cells.CentroidOf(id), second_centroid);
      EXPECT_LE(index.Between(id, cells.CentroidOf(id)), index.Between(id, second_centroid));
      first += index.Between(id, cells.CentroidOf(id)) == nearest[0].first ? 1 : 0;
      second += index.Between(id, second_centroid) == nearest[1].first ? 1 : 0;
    }
    EXPECT_GT(first, 0.97 * others) << Name(metric);
    EXPECT_GT(second, 0.93 * others) << Name(metric);
  }
}

TEST(Centroids, CellsAreRangesOfIdsAndLookupsAgree) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 2500);
  options.replicas = 2;
  const Built index(options);
  const Cells cells(index.n(), index.n1(), index.file.cells(), index.file.second_centroids());
  std::map<NodeId, std::vector<NodeId>> members, replicas;
  for (NodeId id = index.n1(); id < index.n(); ++id) {
    members[cells.CentroidOf(id)].push_back(id);
    replicas[index.file.second_centroids()[id - index.n1()]].push_back(id);
  }
  for (NodeId centroid = 0; centroid < index.n1(); ++centroid) {
    const auto [begin, end] = cells.MembersOf(centroid);
    EXPECT_EQ(end - begin, members[centroid].size());
    for (std::size_t i = 0; i < members[centroid].size(); ++i)
      EXPECT_EQ(members[centroid][i], begin + i);
    const auto listed = cells.ReplicasOf(centroid);
    EXPECT_EQ(std::vector<NodeId>(listed.begin(), listed.end()), replicas[centroid]);
  }
}

/// This is the purpose of the order: a traversal's records share blocks.
TEST(Centroids, NeighborsHaveNearIds) {
  const SampleFolder folder;
  const Built index(SmallBuild(folder, DType::kU8, Metric::kL2, 4000));
  const LayerLinks links = ReadLinks(index.file);
  double gap = 0, count = 0;
  for (NodeId id = index.n1(); id < index.n(); ++id) {
    for (const NodeId link : links[0][id]) {
      if (link < index.n1()) continue;
      gap += std::abs(static_cast<double>(link) - id);
      ++count;
    }
  }
  EXPECT_LT(gap / count, 0.5 * (index.n() - index.n1()) / 3)
      << "a third of the range is the mean gap of a random order";
}

TEST(Centroids, CodesAreThoseOfTheEncoder) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 900);
  options.bits = 4;
  const Built index(options);
  const auto mean = index.file.code_mean();
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, index.file.info().dim);
  const Encoder encoder =
      *Encoder::Make(kernels, 4, index.file.info().seed, {mean.begin(), mean.end()});
  const Cells cells(index.n(), index.n1(), index.file.cells(), {});
  std::vector<std::byte> code(encoder.code_bytes());
  ASSERT_EQ(index.file.info().codes.code_bytes, code.size());
  Encoder::Scratch scratch;
  for (NodeId id = index.n1(); id < index.n(); ++id) {
    encoder.Encode(index.Row(id), index.Row(cells.CentroidOf(id)), code.data(), scratch);
    EXPECT_EQ(std::memcmp(code.data(), index.file.codes().data() + (id - index.n1()) * code.size(),
                          code.size()),
              0);
  }
}

TEST(Centroids, AnIndexWithoutCodesHasNoCells) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 500);
  options.bits = 0;
  const Built index(options);
  EXPECT_EQ(index.file.info().codes, CodeInfo());
  EXPECT_TRUE(index.file.cells().empty());
  EXPECT_TRUE(index.file.codes().empty());
}

}  // namespace
}  // namespace hmann
