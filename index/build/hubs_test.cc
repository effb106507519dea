#include "index/build/hubs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "index/build/testing/build_samples.h"
#include "index/sketch/sketch.h"

namespace hmann {
namespace {

/// A built index, its vectors by id.
struct Built {
  explicit Built(BuildOptions options) : file(Open(options)), kernels(*ChooseKernels(file.info().dtype, Metric::kL2, file.info().dim)) {}

  static IndexFile Open(const BuildOptions& options) {
    MustBuild(options);
    auto opened = IndexFile::Open(options.out);
    HMANN_CHECK(opened.ok());
    return *std::move(opened);
  }
  NodeId n() const { return file.layers().n(); }
  NodeId n1() const { return file.layers().n1(); }
  const std::byte* Row(NodeId id) const {
    return id < n1() ? file.fast_rows().data() + id * file.fast_row_stride() : file.l0().data() + file.records().Offset(id);
  }
  DistanceKey Between(NodeId a, NodeId b) const { return kernels.one(Row(a), Row(b), kernels.dim); }
  /// Promoted nodes by distance from `id`.
  std::vector<std::pair<DistanceKey, NodeId>> Nearest(NodeId id) const {
    std::vector<std::pair<DistanceKey, NodeId>> all;
    for (NodeId hub = 0; hub < n1(); ++hub) all.emplace_back(Between(id, hub), hub);
    std::sort(all.begin(), all.end());
    return all;
  }

  IndexFile file;
  Kernels kernels;
};

TEST(Hubs, AreNearlyAlwaysTheNearestPromotedNodes) {
  const SampleFolder folder;
  for (const auto& [dtype, metric] :
       {std::pair(DType::kU8, Metric::kL2), std::pair(DType::kF32, Metric::kInnerProduct), std::pair(DType::kF32, Metric::kCosine)}) {
    BuildOptions options = SmallBuild(folder, dtype, metric, 3000);
    options.assign = 2;
    const Built index(options);
    const Cells cells(index.n(), index.n1(), index.file.cells(), index.file.second_hubs());
    int first = 0, second = 0;
    const NodeId others = index.n() - index.n1();
    for (NodeId id = index.n1(); id < index.n(); ++id) {
      const auto nearest = index.Nearest(id);
      const NodeId second_hub = index.file.second_hubs()[id - index.n1()];
      EXPECT_NE(cells.HubOf(id), second_hub);
      EXPECT_LE(index.Between(id, cells.HubOf(id)), index.Between(id, second_hub));
      first += index.Between(id, cells.HubOf(id)) == nearest[0].first ? 1 : 0;
      second += index.Between(id, second_hub) == nearest[1].first ? 1 : 0;
    }
    EXPECT_GT(first, 0.97 * others) << Name(metric);
    EXPECT_GT(second, 0.93 * others) << Name(metric);
  }
}

TEST(Hubs, CellsAreRangesOfIdsAndLookupsAgree) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 2500);
  options.assign = 2;
  const Built index(options);
  const Cells cells(index.n(), index.n1(), index.file.cells(), index.file.second_hubs());
  std::map<NodeId, std::vector<NodeId>> members, guests;
  for (NodeId id = index.n1(); id < index.n(); ++id) {
    members[cells.HubOf(id)].push_back(id);
    guests[index.file.second_hubs()[id - index.n1()]].push_back(id);
  }
  for (NodeId hub = 0; hub < index.n1(); ++hub) {
    const auto [begin, end] = cells.MembersOf(hub);
    EXPECT_EQ(end - begin, members[hub].size());
    for (std::size_t i = 0; i < members[hub].size(); ++i) EXPECT_EQ(members[hub][i], begin + i);
    const auto listed = cells.GuestsOf(hub);
    EXPECT_EQ(std::vector<NodeId>(listed.begin(), listed.end()), guests[hub]);
  }
}

/// That is what the order is for: a walk's records share blocks.
TEST(Hubs, NeighboursHaveNearIds) {
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
  EXPECT_LT(gap / count, 0.5 * (index.n() - index.n1()) / 3) << "a third of the range is the mean gap of a random order";
}

TEST(Hubs, SketchesAreThoseOfTheSketcher) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 900);
  options.bits = 3;
  const Built index(options);
  const auto mean = index.file.sketch_mean();
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, index.file.info().dim);
  const Sketcher sketcher = *Sketcher::Make(kernels, 3, index.file.info().seed, {mean.begin(), mean.end()});
  const Cells cells(index.n(), index.n1(), index.file.cells(), {});
  std::vector<std::byte> sketch(sketcher.sketch_bytes());
  ASSERT_EQ(index.file.info().codes.sketch_bytes, sketch.size());
  Sketcher::Scratch scratch;
  for (NodeId id = index.n1(); id < index.n(); ++id) {
    sketcher.Encode(index.Row(id), index.Row(cells.HubOf(id)), sketch.data(), scratch);
    EXPECT_EQ(std::memcmp(sketch.data(), index.file.sketches().data() + (id - index.n1()) * sketch.size(), sketch.size()), 0);
  }
}

TEST(Hubs, SketchesOfLinksAreThoseOfTheSketcherAboutTheirRecord) {
  const SampleFolder folder;
  for (const auto& [dtype, metric] : {std::pair(DType::kU8, Metric::kL2), std::pair(DType::kF32, Metric::kInnerProduct)}) {
    BuildOptions options = SmallBuild(folder, dtype, metric, 900);
    options.bits = 3;
    options.codes = CodePlace::kEdge;
    const Built index(options);
    EXPECT_EQ(index.file.info().codes.place, CodePlace::kEdge);
    EXPECT_TRUE(index.file.cells().empty());
    const RecordLayout& records = index.file.records();
    const auto mean = index.file.sketch_mean();
    const Kernels kernels = *ChooseKernels(dtype, metric, index.file.info().dim);
    const Sketcher sketcher = *Sketcher::Make(kernels, 3, index.file.info().seed, {mean.begin(), mean.end()});
    std::vector<std::byte> sketch(sketcher.sketch_bytes());
    ASSERT_EQ(records.code_bytes, sketch.size());
    Sketcher::Scratch scratch;
    for (NodeId id = 0; id < index.n(); ++id) {
      const std::byte* record = index.file.l0().data() + records.Offset(id);
      const auto* links = reinterpret_cast<const NodeId*>(record + records.LinksOffset(id));
      for (std::uint32_t l = 0; l < records.max_links && links[l] != kNoNode; ++l) {
        sketcher.Encode(index.Row(links[l]), index.Row(id), sketch.data(), scratch);
        ASSERT_EQ(std::memcmp(sketch.data(), record + records.LinksEnd(id) + l * sketch.size(), sketch.size()), 0) << id << " " << l;
      }
    }
  }
}

TEST(Hubs, AnIndexWithoutSketchesHasNoCells) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 500);
  options.bits = 0;
  const Built index(options);
  EXPECT_EQ(index.file.info().codes, CodeInfo());
  EXPECT_TRUE(index.file.cells().empty());
  EXPECT_TRUE(index.file.sketches().empty());
}

}  // namespace
}  // namespace hmann
