#include "index/construct/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "index/base/cpu.h"
#include "index/base/random.h"
#include "index/base/units.h"
#include "index/construct/fast_memory.h"
#include "index/construct/graph/degree.h"
#include "index/construct/testing/build_samples.h"
#include "index/format/link_list.h"
#include "index/format/verify.h"

namespace hmann {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Bytes : public testing::TestWithParam<std::tuple<DType, Metric>> {};

TEST_P(Bytes, AreTheSameForAnyNumberOfThreads) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, std::get<0>(GetParam()), std::get<1>(GetParam()), 1500);
  std::string first;
  for (const int threads : {1, 2, 3, 5}) {
    options.threads = threads;
    EXPECT_EQ(MustBuild(options).threads, threads);
    const std::string content = FileContent(options.out);
    if (first.empty()) first = content;
    EXPECT_TRUE(content == first) << threads << " threads";
  }
  options.seed = 2;
  MustBuild(options);
  EXPECT_FALSE(FileContent(options.out) == first) << "another seed is another graph";
}

TEST_P(Bytes, OfAPartitionAreTheSameForAnyNumberOfThreads) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, std::get<0>(GetParam()), std::get<1>(GetParam()), 1500);
  options.method = BuildMethod::kInsertion;
  MustBuild(options);
  const std::string inserted = FileContent(options.out);
  options.method = BuildMethod::kPartition;
  std::string first;
  for (const int threads : {1, 2, 7}) {
    options.threads = threads;
    EXPECT_GT(MustBuild(options).self_recall_at_1, 0.9);
    const std::string content = FileContent(options.out);
    if (first.empty()) first = content;
    EXPECT_TRUE(content == first) << threads << " threads";
  }
  EXPECT_FALSE(inserted == first);
  options.seed = 2;
  MustBuild(options);
  EXPECT_FALSE(FileContent(options.out) == first) << "other leaders";
}

class IntegerBytes : public Bytes {};

TEST_P(IntegerBytes, AreTheSameAtEverySimdLevel) {
  const auto [dtype, metric] = GetParam();
  const SampleFolder folder;
  const BuildOptions options = SmallBuild(folder, dtype, metric, 800, 37);
  std::string first;
  int levels = 0;
  for (const char* level : {"scalar", "avx2", "avx512", "neon"}) {
    const ScopedVariable forced("HMANN_SIMD", level);
    if (!ChosenSimd().ok()) continue;
    ++levels;
    MustBuild(options);
    const std::string content = FileContent(options.out);
    if (first.empty()) first = content;
    EXPECT_TRUE(content == first) << level;
  }
  EXPECT_GE(levels, 1);
}

std::string NameOf(const testing::TestParamInfo<std::tuple<DType, Metric>>& info) {
  return std::string(Name(std::get<0>(info.param))) + "_" +
         std::string(Name(std::get<1>(info.param)));
}
const auto kAnyMetric = testing::Values(Metric::kL2, Metric::kInnerProduct, Metric::kCosine);
INSTANTIATE_TEST_SUITE_P(
    All, Bytes,
    testing::Combine(testing::Values(DType::kF32, DType::kU8, DType::kI8, DType::kF16), kAnyMetric),
    NameOf);
INSTANTIATE_TEST_SUITE_P(All, IntegerBytes,
                         testing::Combine(testing::Values(DType::kU8, DType::kI8), kAnyMetric),
                         NameOf);

/// Section 13 of doc/paper.md requires this of any index: nested layers, sound lists, all
/// nodes reachable.
void ExpectStructure(const std::string& path) {
  Progress quiet(Progress::Show::kNever);
  EXPECT_TRUE(VerifyIndex(path, quiet).ok()) << VerifyIndex(path, quiet);
  const absl::StatusOr<IndexFile> file = IndexFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const Layers& layers = file->layers();
  const LayerLinks links = ReadLinks(*file);
  for (std::uint32_t layer = 0; layer <= layers.top(); ++layer) {
    if (layer > 0) {
      EXPECT_LT(layers.nodes[layer], layers.nodes[layer - 1]) << "strictly nested prefixes";
    }
    if (layer > 1) {
      EXPECT_EQ(layers.nodes[layer], layers.nodes[layer - 1] / layers.m);
    }
    for (NodeId id = 0; id < layers.nodes[layer]; ++id) {
      const std::vector<NodeId>& list = links[layer][id];
      ASSERT_LE(list.size(), layers.MaxDegree(layer));
      ASSERT_EQ(std::set<NodeId>(list.begin(), list.end()).size(), list.size())
          << "layer " << layer << ", node " << id << ": a link twice";
      for (const NodeId link : list) {
        ASSERT_NE(link, id) << "layer " << layer << ": a self-link";
        ASSERT_LT(link, layers.nodes[layer]) << "layer " << layer << ", node " << id;
      }
    }
  }
  EXPECT_EQ(CountReachable(links[0]), layers.n()) << "over L0";
  if (layers.top() > 0) {
    EXPECT_EQ(CountReachable(links[1]), layers.n1()) << "over L1";
  }
  std::set<std::uint64_t> labels;
  for (NodeId id = 0; id < layers.n(); ++id) labels.insert(file->Label(id));
  EXPECT_EQ(labels.size(), layers.n());
}

TEST(Build, HasTheStructureOfSection13) {
  const SampleFolder folder;
  for (const DType dtype : {DType::kU8, DType::kF32, DType::kF16}) {
    for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine}) {
      SCOPED_TRACE(
          absl::StrCat("dtype ", static_cast<int>(dtype), ", metric ", static_cast<int>(metric)));
      const BuildOptions options = SmallBuild(folder, dtype, metric, 2000);
      const BuildReport report = MustBuild(options);
      ASSERT_NO_FATAL_FAILURE(ExpectStructure(options.out));
      EXPECT_EQ(report.info.layers[1].nodes, 320u);
      EXPECT_EQ(report.reachable_share, 1.0);
      EXPECT_GT(report.self_recall_at_1, metric == Metric::kInnerProduct ? 0.5 : 0.95);
    }
  }
}

/// D of every id and its row, measured on the links of L0 as written. The repair of
/// unreachable nodes ends before ranks are fixed, and renumbering keeps degrees. So these
/// are the degrees that decided.
struct Promoted {
  Layers layers;
  std::vector<std::uint32_t> degree;
  std::vector<std::uint64_t> row;
};

Promoted ReadPromoted(const std::string& path) {
  const IndexFile file = *IndexFile::Open(path);
  const LayerLinks links = ReadLinks(file);
  Promoted promoted{file.layers(), {}, {}};
  const NodeId n = promoted.layers.n();
  std::vector<std::set<NodeId>> either(n);
  for (NodeId v = 0; v < n; ++v) {
    for (const NodeId u : links[0][v]) {
      either[u].insert(v);
      either[v].insert(u);
    }
  }
  for (NodeId v = 0; v < n; ++v) {
    promoted.degree.push_back(static_cast<std::uint32_t>(either[v].size()));
    promoted.row.push_back(file.Label(v));
  }
  return promoted;
}

TEST(Build, PromotesTheHighestDegreesInOrder) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 2000);
  options.method = BuildMethod::kInsertion;  // a partition gets far links after the ranking
  MustBuild(options);
  const Promoted found = ReadPromoted(options.out);
  const std::vector<std::uint32_t>& degree = found.degree;
  const NodeId n1 = found.layers.n1();
  ASSERT_EQ(n1, 320u);
  for (NodeId rank = 1; rank < n1; ++rank) {
    ASSERT_LE(degree[rank], degree[rank - 1]) << "rank " << rank;
    if (degree[rank] == degree[rank - 1]) {
      ASSERT_LT(found.row[rank - 1], found.row[rank]) << "ties by row, rank " << rank;
    }
  }
  for (NodeId id = n1; id < found.layers.n(); ++id) {
    ASSERT_LE(degree[id], degree[n1 - 1]) << "node " << id << " should have been promoted";
    if (degree[id] == degree[n1 - 1]) {
      ASSERT_GT(found.row[id], found.row[n1 - 1]);
    }
  }
}

TEST(Build, MayPromoteAtRandom) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 2000);
  options.rank_at_random = true;
  MustBuild(options);
  const Promoted found = ReadPromoted(options.out);
  ASSERT_EQ(found.layers.n1(), 320u);
  std::vector<std::uint32_t> degree = found.degree;
  const double promoted = std::accumulate(degree.begin(), degree.begin() + 320, 0.0) / 320,
               all = std::accumulate(degree.begin(), degree.end(), 0.0) / 2000;
  EXPECT_NEAR(promoted / all, 1, 0.1);
}

TEST(Build, ReportsTheDegreesOfTheWrittenGraph) {
  const SampleFolder folder;
  const BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 1000);
  const BuildReport report = MustBuild(options);
  std::vector<std::uint32_t> degrees = ReadPromoted(options.out).degree;
  std::sort(degrees.begin(), degrees.end());
  EXPECT_DOUBLE_EQ(report.degree_mean, std::accumulate(degrees.begin(), degrees.end(), 0.0) / 1000);
  EXPECT_EQ(report.degree_max, degrees.back());
  EXPECT_EQ(report.degree_p99, degrees[989]);
  EXPECT_EQ(report.phases.back().name, "total");
  EXPECT_GT(report.peak_rss_bytes, 1_MiB);
}

TEST(Build, NotesThatLengthOneMakesMetricsAgree) {
  const SampleFolder folder;
  std::vector<float> circle, ellipse;
  for (int i = 0; i < 400; ++i) {
    const double angle = 0.01 * i;
    circle.insert(circle.end(), {float(std::cos(angle)), float(std::sin(angle))});
    ellipse.insert(ellipse.end(), {float(std::cos(angle)), float(2 * std::sin(angle))});
  }
  for (const auto& [rows, metric, notes] : {std::tuple(&circle, Metric::kL2, 1u),
                                            {&circle, Metric::kCosine, 0u},
                                            {&ellipse, Metric::kL2, 0u}}) {
    BuildOptions options;
    options.base = folder / "circle.fbin";
    options.out = folder / "circle.hmann";
    options.metric = metric;
    WriteRows(options.base, 2, *rows);
    EXPECT_THAT(MustBuild(options).notes, testing::SizeIs(notes));
  }
}

/// Scalar codes are stored where a search reads fewer bytes with them.
TEST(Build, ChoosesScalarCodesByItsOwnVectors) {
  const SampleFolder folder;
  const auto built = [&](DType dtype, std::uint32_t dim) {
    return MustBuild(SmallBuild(folder, dtype, Metric::kL2, 1000, dim));
  };
  EXPECT_EQ(built(DType::kF32, 32).info.scalar_bits, 4u);
  EXPECT_EQ(built(DType::kF16, 48).info.scalar_bits, 4u);
  EXPECT_EQ(built(DType::kF32, 16).info.scalar_bits, 0u) << "a cache line";
  EXPECT_EQ(built(DType::kU8, 32).info.scalar_bits, 0u);
  // Centers 1000 apart, around which vectors differ by less than a level of 8 bits.
  std::vector<float> rows;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    for (std::uint64_t d = 0; d < 32; ++d) {
      rows.push_back(static_cast<float>(Random(1, i % 20 * 32 + d) % 1000) +
                     static_cast<float>(Random(2, i * 32 + d) % 1000) * 1e-4f);
    }
  }
  BuildOptions options = SmallBuild(folder, DType::kF32, Metric::kL2, 1000, 32);
  WriteRows(options.base, 32, rows);
  const BuildReport coarse = MustBuild(options);
  EXPECT_EQ(coarse.info.scalar_bits, 0u);
  ASSERT_THAT(coarse.notes, testing::SizeIs(1));
  EXPECT_THAT(coarse.notes[0], testing::HasSubstr("no scalar codes"));
}

TEST(Build, PayloadIsTheFormulaOfSection7) {
  const SampleFolder folder;
  for (const double promote : {0.05, 0.16, 0.6}) {
    BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 1000);
    options.promote = promote;
    const BuildReport report = MustBuild(options);
    const Layers layers = IndexFile::Open(options.out)->layers();
    std::uint64_t total = 0;
    std::map<std::string, std::uint64_t> bytes;
    for (const StructureBytes& structure : report.info.bytes) {
      total += structure.bytes;
      bytes[structure.name] = structure.bytes;
      if (structure.name == "l0_links") continue;
      EXPECT_TRUE(structure.formula == 0 || structure.formula == structure.bytes) << structure.name;
    }
    EXPECT_EQ(bytes["upper_links"], layers.UpperLinkBytes());
    EXPECT_EQ(bytes["fast_vectors"], 12u * layers.n1());
    EXPECT_EQ(bytes["l0_links"], layers.n() * layers.MaxDegree(0) * 10 / 8)
        << "1000 needs 10 bits; the paper has 32";
    EXPECT_EQ(bytes["slow_vectors"], 12u * (layers.n() - layers.n1()));
    EXPECT_EQ(bytes["labels"], 4000u);
    EXPECT_EQ(total, std::filesystem::file_size(options.out))
        << "every byte of the file has a name";
    EXPECT_EQ(report.info.file_bytes, std::filesystem::file_size(options.out));
  }
}

TEST(Build, TinySetsWork) {
  const SampleFolder folder;
  for (const std::uint64_t n : {1, 2, 3, 7, 17}) {
    for (const std::uint32_t dim : {1u, 3u}) {
      for (const double promote : {0.16, 0.9}) {
        SCOPED_TRACE(absl::StrCat("n ", n, ", dim ", dim, ", promote ", promote));
        BuildOptions options = SmallBuild(folder, DType::kF32, Metric::kL2, n, dim);
        options.promote = promote;
        options.m = 2;
        const BuildReport report = MustBuild(options);
        EXPECT_EQ(report.info.n, n);
        EXPECT_EQ(report.info.layers.size() > 1 ? report.info.layers[1].nodes : 0,
                  static_cast<std::uint64_t>(n * promote));
        ASSERT_NO_FATAL_FAILURE(ExpectStructure(options.out));
        EXPECT_EQ(report.self_recall_at_1, 1.0);
      }
    }
  }
}

TEST(Build, RowsTakesAPrefix) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 500);
  options.rows = 123;
  EXPECT_EQ(MustBuild(options).info.n, 123u);
  ASSERT_NO_FATAL_FAILURE(ExpectStructure(options.out));
}

TEST(Build, UsersLabelsHave64Bits) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 300);
  std::vector<std::uint64_t> labels;
  for (std::uint64_t row = 0; row < 300; ++row) labels.push_back(~std::uint64_t{0} - row * row);
  options.labels = folder / "labels.u64";
  std::ofstream(options.labels, std::ios::binary)
      .write(reinterpret_cast<const char*>(labels.data()), std::streamsize{300} * 8);
  EXPECT_TRUE(MustBuild(options).info.user_labels);
  const IndexFile with_labels = *IndexFile::Open(options.out);
  BuildOptions plain = options;
  plain.labels.clear();
  plain.out = folder / "plain.hmann";
  EXPECT_FALSE(MustBuild(plain).info.user_labels);
  const IndexFile with_rows = *IndexFile::Open(plain.out);
  for (NodeId id = 0; id < 300; ++id)
    ASSERT_EQ(with_labels.Label(id), labels[with_rows.Label(id)]) << "node " << id;
  ASSERT_NO_FATAL_FAILURE(ExpectStructure(options.out));

  std::ofstream(options.labels, std::ios::binary)
      .write(reinterpret_cast<const char*>(labels.data()), std::streamsize{299} * 8);
  EXPECT_THAT(std::string(TryBuild(options).status().message()),
              AllOf(HasSubstr("labels.u64"), HasSubstr("2392")));
}

}  // namespace
}  // namespace hmann
