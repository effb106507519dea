// hnswlib's vectorized loops put functions into the global namespace, and prefetch past a
// list's end.
#define NO_MANUAL_VECTORIZATION

#include <gtest/gtest.h>
#include <hnswlib/hnswlib.h>

#include <algorithm>
#include <set>

#include "index/construct/testing/build_samples.h"
#include "index/graph/layer_search.h"

namespace hmann {
namespace {

constexpr std::uint32_t kM = 16, kEfConstruction = 100, kK = 10;
constexpr NodeId kRows = 5000;
constexpr const char* kSample = "datasets/sample/base.u8bin";

/// The distance of the kK-th nearest of the first kRows rows of the sample to row
/// `query`.
DistanceKey ExactLast(const VectorFile& file, const Kernels& kernels, std::uint64_t query) {
  std::vector<DistanceKey> all;
  for (NodeId row = 0; row < kRows; ++row)
    all.push_back(kernels.one(file.Row(query), file.Row(row), kernels.dim));
  std::nth_element(all.begin(), all.begin() + kK - 1, all.end());
  return all[kK - 1];
}

/// Recall@10 of graph searches of one ef over L0 alone, all from node 0, and the
/// distances that they took.
struct Quality {
  double recall = 0, distances = 0;
};

Quality MeasureL0(const std::string& path, const VectorFile& file,
                  const std::vector<std::uint64_t>& queries, std::uint32_t ef) {
  const IndexFile index = *IndexFile::Open(path);
  const LayerLinks links = ReadLinks(index);
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, file.dim());
  std::vector<NodeId> flat(std::size_t{kRows} * 2 * kM, kNoNode);
  std::vector<std::byte> rows(std::size_t{kRows} * kernels.row_bytes);
  for (NodeId id = 0; id < kRows; ++id) {
    std::copy(links[0][id].begin(), links[0][id].end(), flat.begin() + std::size_t{id} * 2 * kM);
    std::memcpy(&rows[std::size_t{id} * kernels.row_bytes], file.Row(index.Label(id)),
                kernels.row_bytes);
  }
  const LayerView view{flat.data(), kRows, 2 * kM, rows.data(), kernels.row_bytes, &kernels};
  struct Count {
    std::uint64_t distances = 0;
    void Distances(std::size_t n) { distances += n; }
    void Expanded() {}
    void Scored(const RowBatch&) {}
    void Stepped(const Beam&) {}
  } count;
  LayerScratch scratch;
  std::uint64_t found = 0;
  for (const std::uint64_t query : queries) {
    OpenBeam(view, file.Row(query), 0, ef, scratch, count);
    SearchLayer(view, file.Row(query), ef, scratch, count);
    const DistanceKey last = ExactLast(file, kernels, query);
    for (std::uint32_t i = 0; i < kK; ++i) found += scratch.beam.key(i) <= last ? 1 : 0;
  }
  const auto n = static_cast<double>(queries.size());
  return {static_cast<double>(found) / (n * kK), static_cast<double>(count.distances) / n};
}

/// A thousand rows that are not among the first kRows.
std::vector<std::uint64_t> RowsBehind(const VectorFile& file) {
  std::vector<std::uint64_t> rows;
  for (std::uint64_t i = 0; i < 1000; ++i) rows.push_back(kRows + i * (file.n() - kRows) / 1000);
  return rows;
}

TEST(Quality, L0IsAsGoodAsHnswlibs) {
  const SampleFolder folder;
  const VectorFile file = *VectorFile::Open(kSample);
  ASSERT_GE(file.n(), kRows + 1000u);
  const std::vector<std::uint64_t> queries = RowsBehind(file);
  BuildOptions options;
  options.base = kSample;
  options.rows = kRows;
  options.out = folder / "ours.hmann";
  options.m = kM;
  options.ef_construction = kEfConstruction;
  options.threads = 2;
  options.method = BuildMethod::kInsertion;
  options.alpha = 1;
  MustBuild(options);

  hnswlib::L2SpaceI space(file.dim());
  hnswlib::HierarchicalNSW<int> graph(&space, kRows, kM, kEfConstruction);
  for (NodeId row = 0; row < kRows; ++row) graph.addPoint(file.Row(row), row);
  options.from_hnswlib = folder / "theirs.bin";
  graph.saveIndex(options.from_hnswlib);
  options.out = folder / "theirs.hmann";
  EXPECT_EQ(MustBuild(options).info.alpha, options.alpha) << "of L1";

  for (const std::uint32_t ef : {10u, 24u, 64u}) {
    const Quality ours = MeasureL0(folder / "ours.hmann", file, queries, ef),
                  theirs = MeasureL0(folder / "theirs.hmann", file, queries, ef);
    RecordProperty(absl::StrCat("ef_", ef, "_ours"),
                   absl::StrCat(ours.recall, " with ", ours.distances, " distances"));
    RecordProperty(absl::StrCat("ef_", ef, "_hnswlib"),
                   absl::StrCat(theirs.recall, " with ", theirs.distances, " distances"));
    EXPECT_GE(ours.recall, theirs.recall - 0.006)
        << "ef " << ef << "; 10,000 answers: a standard error of up to 0.003 each";
    EXPECT_LE(ours.distances, 1.05 * theirs.distances) << "ef " << ef << ", and not by more work";
    EXPECT_GT(ours.recall, ef == 64 ? 0.99 : 0.85);
  }
}

TEST(Quality, RefinedLinksLeadToMoreForLess) {
  const SampleFolder folder;
  const VectorFile file = *VectorFile::Open(kSample);
  const std::vector<std::uint64_t> queries = RowsBehind(file);
  BuildOptions options;
  options.base = kSample;
  options.rows = kRows;
  options.threads = 2;
  options.method = BuildMethod::kInsertion;
  ASSERT_GT(options.alpha, 1);
  options.out = folder / "refined.hmann";
  MustBuild(options);
  options.alpha = 1;
  options.out = folder / "plain.hmann";
  MustBuild(options);
  for (const auto& [narrow, wide] : {std::pair{24u, 40u}, {40u, 70u}}) {
    const Quality refined = MeasureL0(folder / "refined.hmann", file, queries, narrow),
                  plain = MeasureL0(folder / "plain.hmann", file, queries, wide);
    EXPECT_GE(refined.recall, plain.recall - 0.006)
        << "a beam of " << narrow << " beside one of " << wide;
    EXPECT_LE(refined.distances, 0.95 * plain.distances);
  }
}

TEST(Quality, APartitionIsAsGoodAsInsertion) {
  const SampleFolder folder;
  const VectorFile file = *VectorFile::Open(kSample);
  const std::vector<std::uint64_t> queries = RowsBehind(file);
  BuildOptions options;
  options.base = kSample;
  options.rows = kRows;
  options.threads = 2;
  options.method = BuildMethod::kInsertion;
  options.out = folder / "inserted.hmann";
  MustBuild(options);
  options.method = BuildMethod::kPartition;
  options.out = folder / "partition.hmann";
  EXPECT_EQ(MustBuild(options).self_recall_at_1, 1.0);
  for (const std::uint32_t ef : {24u, 40u}) {
    const Quality inserted = MeasureL0(folder / "inserted.hmann", file, queries, ef),
                  joined = MeasureL0(folder / "partition.hmann", file, queries, ef);
    RecordProperty(absl::StrCat("ef_", ef, "_partition"),
                   absl::StrCat(joined.recall, " with ", joined.distances, " distances; inserted ",
                                inserted.recall, " with ", inserted.distances));
    // On L0 alone, all searches start at one node. A partition has no far links, and
    // misses a few that the upper layers would have led to.
    EXPECT_GE(joined.recall, inserted.recall - 0.012) << "ef " << ef;
    EXPECT_LE(joined.distances, 1.05 * inserted.distances) << "ef " << ef;
  }
}

TEST(Quality, CopiesDoNotHurtTheGraphOfTheOthers) {
  // 3000 rows alone; and with a copy of each and 2000 copies of one of them behind.
  const SampleFolder folder;
  const VectorFile file = *VectorFile::Open(kSample);
  std::vector<std::uint8_t> values;
  const auto add = [&](std::uint64_t row) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(file.Row(row));
    values.insert(values.end(), begin, begin + file.dim());
  };
  for (int copy = 0; copy < 2; ++copy) {
    for (std::uint64_t row = 0; row < 3000; ++row) add(row);
  }
  for (int copy = 0; copy < 2000; ++copy) add(77);
  BuildOptions options;
  options.base = folder / "copies.u8bin";
  WriteRows(options.base, file.dim(), values);
  options.out = folder / "copies.hmann";
  options.m = kM;
  options.ef_construction = kEfConstruction;
  options.threads = 2;
  const BuildReport with = MustBuild(options);
  EXPECT_EQ(with.duplicates, 5000u);
  EXPECT_EQ(with.self_recall_at_1, 1.0);
  options.rows = 3000;
  options.out = folder / "alone.hmann";
  MustBuild(options);
  const IndexFile alone = *IndexFile::Open(options.out),
                  copies = *IndexFile::Open(folder / "copies.hmann");
  const auto lists = [](const IndexFile& index) {
    const LayerLinks links = ReadLinks(index);
    std::vector<std::set<std::uint64_t>> by_row(3000);
    for (NodeId id = 0; id < links[0].size(); ++id) {
      if (index.Label(id) >= 3000) continue;
      for (const NodeId link : links[0][id]) {
        if (index.Label(link) < 3000) by_row[index.Label(id)].insert(index.Label(link));
      }
    }
    return by_row;
  };
  const auto expected = lists(alone), found = lists(copies);
  std::size_t links = 0, kept = 0;
  for (std::size_t row = 0; row < 3000; ++row) {
    links += expected[row].size();
    for (const std::uint64_t link : expected[row]) kept += found[row].count(link);
  }
  EXPECT_GT(static_cast<double>(kept) / static_cast<double>(links), 0.92)
      << "the same graph, but for links given up for children, and far ones of other hubs: copies "
         "count in degrees";
}

}  // namespace
}  // namespace hmann
