#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "datasets/exact_distance.h"
#include "datasets/testing/temp_folder.h"
#include "datasets/toolbox/exact_neighbors.h"
#include "datasets/toolbox/generate.h"
#include "gmock/gmock.h"
#include "index/base/random.h"
#include "index/distance/reference.h"

namespace hmann {
namespace {

using testing::HasSubstr;
using u32 = std::uint32_t;

VectorFile Made(const TempFolder& folder, const std::string& name, Shape shape, std::uint64_t n,
                std::uint64_t first, u32 dim) {
  Progress progress(Progress::Show::kNever);
  GenerateOptions options;
  options.shape = shape;
  options.n = n;
  options.first = first;
  options.dim = dim;
  options.clusters = 10;
  options.threads = 2;
  EXPECT_TRUE(Generate(options, folder / name, progress).ok());
  auto file = VectorFile::Open(folder / name);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

/// The brute-force way: every distance in doubles, all sorted.
GroundTruth BruteForce(const VectorFile& base, const VectorFile& queries, Metric metric, u32 k) {
  GroundTruth truth{.n = static_cast<u32>(queries.n()), .k = k, .ids = {}, .distances = {}};
  for (std::uint64_t q = 0; q < queries.n(); ++q) {
    std::vector<std::pair<double, std::uint64_t>> all;
    for (std::uint64_t b = 0; b < base.n(); ++b) {
      double l2 = 0, dot = 0, qq = 0, bb = 0;
      for (u32 c = 0; c < base.dim(); ++c) {
        const double x = Component(queries.dtype(), queries.Row(q), c),
                     y = Component(base.dtype(), base.Row(b), c);
        l2 += (x - y) * (x - y);
        dot += x * y;
        qq += x * x;
        bb += y * y;
      }
      all.emplace_back(metric == Metric::kL2 ? l2
                       : metric == Metric::kInnerProduct
                           ? -dot
                           : 1 - dot / (std::sqrt(qq) * std::sqrt(bb)),
                       b);
    }
    std::sort(all.begin(), all.end());
    for (u32 j = 0; j < k; ++j) {
      truth.ids.push_back(all[j].second);
      truth.distances.push_back(static_cast<float>(all[j].first));
    }
  }
  return truth;
}

GroundTruth Exact(const VectorFile& base, const VectorFile& queries, ExactOptions options) {
  Progress progress(Progress::Show::kNever);
  options.threads = 2;
  auto report = ExactNeighbors(base, queries, options, progress);
  EXPECT_TRUE(report.ok()) << report.status();
  return *std::move(report);
}

struct Case {
  const char* suffix;
  Metric metric;
};

class GroundTruthOf : public testing::TestWithParam<Case> {};

TEST_P(GroundTruthOf, EqualsBruteForce) {
  const TempFolder folder;
  const auto [suffix, metric] = GetParam();
  for (const Shape shape :
       {Shape::kClustered, Shape::kUniform, Shape::kCentroids, Shape::kDuplicates}) {
    for (const u32 dim : {1u, 7u, 48u}) {
      if (metric == Metric::kCosine && dim == 1)
        continue;  // all directions are equal: ties of rounding, not of the data
      const VectorFile base = Made(folder, absl::StrCat("base", suffix), shape, 900, 0, dim);
      const VectorFile queries = Made(folder, absl::StrCat("query", suffix), shape, 25, 900, dim);
      if (metric == Metric::kCosine && dim == 7 && !IsFloat(base.dtype()))
        continue;  // the same for parallel small integers
      // With small blocks the base comes in five, the queries in three.
      const GroundTruth exact = Exact(
          base, queries,
          {.metric = metric, .k = 20, .threads = 2, .block_bytes = std::uint64_t{200} * dim * 4});
      const GroundTruth expected = BruteForce(base, queries, metric, 20);
      EXPECT_EQ(exact.ids, expected.ids) << Name(shape) << " dim " << dim;
      EXPECT_EQ(exact.distances, expected.distances) << Name(shape) << " dim " << dim;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GroundTruthOf,
    testing::Values(Case{".fbin", Metric::kL2}, Case{".fbin", Metric::kInnerProduct},
                    Case{".fbin", Metric::kCosine}, Case{".u8bin", Metric::kL2},
                    Case{".u8bin", Metric::kInnerProduct}, Case{".u8bin", Metric::kCosine},
                    Case{".i8bin", Metric::kL2}, Case{".i8bin", Metric::kInnerProduct},
                    Case{".i8bin", Metric::kCosine}, Case{".f16bin", Metric::kL2},
                    Case{".f16bin", Metric::kInnerProduct}, Case{".f16bin", Metric::kCosine}),
    [](const auto& test) {
      return absl::StrCat(test.param.suffix + 1, "_", std::string(Name(test.param.metric)));
    });

TEST(GroundTruth, OfHalvesTakesQueriesOfFloats) {
  const TempFolder folder;
  const VectorFile base = Made(folder, "base.f16bin", Shape::kClustered, 900, 0, 20);
  const VectorFile queries = Made(folder, "query.fbin", Shape::kClustered, 25, 900, 20);
  for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine}) {
    const GroundTruth exact = Exact(base, queries, {.metric = metric, .k = 20});
    const GroundTruth expected = BruteForce(base, queries, metric, 20);
    EXPECT_EQ(exact.ids, expected.ids) << Name(metric);
    EXPECT_EQ(exact.distances, expected.distances) << Name(metric);
  }
  Progress quiet(Progress::Show::kNever);
  const absl::Status other = ExactNeighbors(queries, base, {.k = 1}, quiet).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()), HasSubstr("expected vectors of 20 x f32"));
}

TEST(GroundTruth, AmongSomeRowsIsThatOfThese) {
  const TempFolder folder;
  for (const auto& [suffix, metric] :
       {Case{".u8bin", Metric::kL2}, Case{".fbin", Metric::kCosine}}) {
    const VectorFile base = Made(folder, absl::StrCat("b", suffix), Shape::kClustered, 900, 0, 7);
    const VectorFile queries =
        Made(folder, absl::StrCat("q", suffix), Shape::kClustered, 9, 900, 7);
    const GroundTruth all = BruteForce(base, queries, metric, 900);
    ExactOptions options{.metric = metric, .k = 20};
    // Query 0 may find no row, query q each 20 q-th from row 1 on.
    options.among = [](std::uint64_t query) {
      std::vector<std::uint64_t> rows;
      for (std::uint64_t row = 1; query > 0 && row < 900; row += 20 * query) rows.push_back(row);
      return rows;
    };
    const GroundTruth exact = Exact(base, queries, options);
    for (u32 q = 0; q < 9; ++q) {
      std::vector<std::uint64_t> ids;
      std::vector<float> distances;
      for (u32 i = 0; i < 900; ++i) {
        if (q == 0 || all.Ids(q)[i] % (20 * q) != 1 || ids.size() == 20) continue;
        ids.push_back(all.Ids(q)[i]);
        distances.push_back(all.Distances(q)[i]);
      }
      EXPECT_EQ(ids.size() < 20, q != 1 && q != 2);
      ids.resize(20, kNoNeighbor);
      distances.resize(20, std::numeric_limits<float>::infinity());
      EXPECT_THAT(exact.Ids(q), testing::ElementsAreArray(ids)) << q;
      EXPECT_THAT(exact.Distances(q), testing::ElementsAreArray(distances)) << q;
    }
    options.among = [](std::uint64_t query) -> absl::StatusOr<std::vector<std::uint64_t>> {
      if (query < 3) return std::vector<std::uint64_t>{};
      return absl::DataLossError("damaged");
    };
    Progress quiet(Progress::Show::kNever);
    EXPECT_EQ(ExactNeighbors(base, queries, options, quiet).status().message(), "query 3: damaged");
  }
}

TEST(GroundTruth, BreaksTiesById) {
  const TempFolder folder;
  // 300 equal vectors, then 10 nearer ones: k = 50 must return those 10 and the first 40
  // of the equal ones.
  std::string rows;
  for (int i = 0; i < 310; ++i) rows += i < 300 ? "\x05\x05" : "\x01\x01";
  const auto base = VectorFile::Open(folder.Write("b.u8bin", Bytes(u32{310}, u32{2}) + rows));
  const auto query =
      VectorFile::Open(folder.Write("q.u8bin", Bytes(u32{1}, u32{2}) + std::string(2, '\0')));
  ASSERT_TRUE(base.ok() && query.ok());
  const GroundTruth exact =
      Exact(*base, *query, {.metric = Metric::kL2, .k = 50, .threads = 2, .block_bytes = 64 << 20});
  for (std::uint64_t j = 0; j < 50; ++j) {
    EXPECT_EQ(exact.ids[j], j < 10 ? 300 + j : j - 10);
    EXPECT_EQ(exact.distances[j], j < 10 ? 2.0f : 50.0f);
  }
}

/// Rows of noise of size 1, changed by `change(row, components)`.
VectorFile Noise(const TempFolder& folder, const std::string& name, u32 n, std::uint64_t seed,
                 const std::function<void(u32, float*)>& change) {
  constexpr u32 kDim = 24;
  std::string rows = Bytes(n, kDim);
  for (u32 i = 0; i < n; ++i) {
    float row[kDim];
    for (u32 c = 0; c < kDim; ++c)
      row[c] = static_cast<float>(RandomUnit(seed, i * kDim + c) + RandomUnit(seed + 1, i) - 1);
    change(i, row);
    rows.append(reinterpret_cast<const char*>(row), sizeof(row));
  }
  auto file = VectorFile::Open(folder.Write(name, rows));
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

TEST(GroundTruth, IsExactFarFromTheOrigin) {
  const TempFolder folder;
  const auto times = [](u32 i, float* row) {
    row[3] = 1.6e9f + 128.0f * static_cast<float>(i % 7);
  };
  const std::pair<const char*, std::function<void(u32, float*)>> kinds[] = {
      {"as they are", [](u32, float*) {}},
      {"one component", [](u32, float* row) { row[5] += 20000; }},
      {"all components",
       [](u32, float* row) {
         for (u32 c = 0; c < 24; ++c) row[c] += 1000;
       }},
      {"one far row",
       [](u32 i, float* row) {
         if (i == 11) row[0] = 3e7f;
       }},
      {"two places", [](u32 i, float* row) { row[1] += i % 3 == 0 ? 5e4f : -5e4f; }},
      {"times", times}};
  for (const auto& [name, change] : kinds) {
    const VectorFile base = Noise(folder, "b.fbin", 3000, 1, change);
    const VectorFile queries = Noise(folder, "q.fbin", 40, 7, change);
    for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine}) {
      const GroundTruth exact = Exact(base, queries, {.metric = metric, .k = 10});
      const GroundTruth expected = BruteForce(base, queries, metric, 10);
      EXPECT_EQ(exact.ids, expected.ids) << name << " " << Name(metric);
      EXPECT_EQ(exact.distances, expected.distances) << name << " " << Name(metric);
    }
  }
}

TEST(GroundTruth, DistancesThatVanishInF32AreNoTies) {
  const TempFolder folder;
  const auto base = VectorFile::Open(
      folder.Write("b.fbin", Bytes(u32{3}, u32{2}, 1.0f, 3e-25f, 1.0f, 2e-25f, 1.0f, 1e-25f)));
  const auto query = VectorFile::Open(folder.Write("q.fbin", Bytes(u32{1}, u32{2}, 1.0f, 1e-25f)));
  ASSERT_TRUE(base.ok() && query.ok());
  const GroundTruth truth = Exact(*base, *query, {.k = 3});
  EXPECT_THAT(truth.ids, testing::ElementsAre(2, 1, 0));
  EXPECT_EQ(truth.distances[0], 0);
  EXPECT_EQ(truth.distances[1], kVanished);
}

TEST(GroundTruth, SeesDifferencesThatF32Hides) {
  const TempFolder folder;
  // Squared distances 4096 + (j / 1024)^2 far from the origin, which |q|^2 + |b|^2 - 2qb
  // in f32 cannot distinguish.
  std::string rows;
  constexpr u32 kRows = 200;
  for (u32 i = 0; i < kRows; ++i)
    rows += Bytes(4000.0f + 64.0f, 4000.0f, static_cast<float>(kRows - i) * 0x1p-10f);
  const auto base = VectorFile::Open(folder.Write("b.fbin", Bytes(kRows, u32{3}) + rows));
  const auto query =
      VectorFile::Open(folder.Write("q.fbin", Bytes(u32{1}, u32{3}, 4000.0f, 4000.0f, 0.0f)));
  ASSERT_TRUE(base.ok() && query.ok());
  const GroundTruth exact =
      Exact(*base, *query, {.metric = Metric::kL2, .k = 10, .threads = 2, .block_bytes = 64 << 20});
  for (u32 j = 0; j < 10; ++j) EXPECT_EQ(exact.ids[j], kRows - 1 - j);
}

TEST(GroundTruth, FindsThePublishedNeighborsOfTheSample) {
  const auto base = VectorFile::Open("datasets/sample/base.u8bin");
  const auto queries = VectorFile::Open("datasets/sample/query.u8bin");
  ASSERT_TRUE(base.ok() && queries.ok());
  const GroundTruth exact = Exact(
      *base, *queries, {.metric = Metric::kL2, .k = 100, .threads = 2, .block_bytes = 1 << 20});
  const auto shipped = ReadGroundTruth("datasets/sample/query.gt100");
  ASSERT_TRUE(shipped.ok()) << shipped.status();
  EXPECT_EQ(exact.ids, shipped->ids);
  EXPECT_EQ(exact.distances, shipped->distances);
}

TEST(GroundTruth, NamesBadInput) {
  const TempFolder folder;
  Progress progress(Progress::Show::kNever);
  const auto f32 =
      VectorFile::Open(folder.Write("a.fbin", Bytes(u32{2}, u32{2}, 1.0f, 2.0f, 0.0f, 0.0f)));
  const auto wide =
      VectorFile::Open(folder.Write("b.fbin", Bytes(u32{1}, u32{3}, 1.0f, 2.0f, 3.0f)));
  const auto u8 = VectorFile::Open(folder.Write("c.u8bin", Bytes(u32{1}, u32{2}) + "ab"));
  const auto nan =
      VectorFile::Open(folder.Write("d.fbin", Bytes(u32{1}, u32{2}, 1.0f, std::nanf(""))));
  const auto far = VectorFile::Open(folder.Write("e.fbin", Bytes(u32{1}, u32{2}, 1e30f, 1.0f)));
  ASSERT_TRUE(f32.ok() && wide.ok() && u8.ok() && nan.ok() && far.ok());
  const auto message = [&](const VectorFile& base, const VectorFile& queries, Metric metric,
                           u32 k) {
    const auto report = ExactNeighbors(
        base, queries, {.metric = metric, .k = k, .threads = 1, .block_bytes = 1 << 20}, progress);
    EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(report.status().message());
  };
  EXPECT_THAT(message(*f32, *wide, Metric::kL2, 1), HasSubstr("expected vectors of 2 x f32 as in"));
  EXPECT_THAT(message(*f32, *u8, Metric::kL2, 1), HasSubstr("found 2 x u8"));
  EXPECT_THAT(message(*f32, *f32, Metric::kL2, 0), HasSubstr("k: 0 asked for"));
  EXPECT_THAT(message(*f32, *f32, Metric::kL2, 3), HasSubstr("k: 3 asked for, 1 to 2"));
  EXPECT_THAT(message(*f32, *nan, Metric::kL2, 1), HasSubstr("row 0, component 1"));
  EXPECT_THAT(message(*nan, *f32, Metric::kL2, 1), HasSubstr("row 0, component 1"));
  EXPECT_THAT(message(*far, *f32, Metric::kL2, 1),
              HasSubstr("row 0: squared norm: expected at most"));
  const auto tiny =
      VectorFile::Open(folder.Write("f.fbin", Bytes(u32{2}, u32{2}, 1e-30f, 0.0f, 0.0f, 0.0f)));
  ASSERT_TRUE(tiny.ok());
  EXPECT_THAT(message(*tiny, *f32, Metric::kL2, 1), HasSubstr("largest squared norm of 2 rows"));
  EXPECT_THAT(message(*tiny, *f32, Metric::kInnerProduct, 1), HasSubstr("scale the vectors"));
  EXPECT_THAT(message(*f32, *f32, Metric::kCosine, 1), HasSubstr("row 1: zero vector"));
}

}  // namespace
}  // namespace hmann
