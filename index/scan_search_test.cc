// Searches that would take longer than a scan, and the scan itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "datasets/vector_file.h"
#include "hmann/hmann.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

using Rows = std::vector<float>;

/// Rows of `dim` components; fill(row, row's components) makes each.
Rows MakeRows(std::uint32_t n, std::uint32_t dim,
              const std::function<void(std::uint32_t, float*)>& fill) {
  Rows rows(std::size_t{n} * dim);
  for (std::uint32_t row = 0; row < n; ++row) fill(row, &rows[std::size_t{row} * dim]);
  return rows;
}

/// Normally distributed components.
class Normal {
 public:
  explicit Normal(std::uint32_t seed) : random_(seed) {}
  float operator()() { return normal_(random_); }

 private:
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

template <typename T>
void WriteAs(const std::string& path, std::uint32_t dim, const Rows& rows) {
  std::vector<T> values;
  for (const float x : rows) values.push_back(static_cast<T>(x));
  WriteRows(path, dim, values);
}

/// An index of some rows, with queries of its query type.
class Built {
 public:
  Built(DType dtype, Metric metric, std::uint32_t dim, const Rows& rows, const Rows& queries,
        std::uint64_t memory = 0) {
    const std::string base = folder_ / absl::StrCat("base", Suffix(dtype));
    const std::string query = folder_ / absl::StrCat("query", Suffix(dtype));
    for (const auto& [path, from] : {std::pair(base, &rows), std::pair(query, &queries)}) {
      if (dtype == DType::kU8) WriteAs<std::uint8_t>(path, dim, *from);
      if (dtype == DType::kI8) WriteAs<std::int8_t>(path, dim, *from);
      if (IsFloat(dtype)) WriteAs<float>(path, dim, *from);
    }
    BuildOptions options;
    options.base = base;
    options.out = folder_ / "index";
    options.metric = metric;
    options.m = 8;
    options.ef_construction = 60;
    options.threads = 2;
    if (dtype == DType::kF16) options.dtype = dtype;
    options.memory = memory;
    if (memory > 0) options.work = folder_ / "work";
    report_ = MustBuild(options);
    queries_ = *VectorFile::Open(query);
  }

  const BuildReport& report() const { return report_; }
  std::uint64_t n() const { return report_.info.n; }
  std::string path() const { return folder_ / "index"; }
  std::shared_ptr<const Index> Open(const OpenOptions& options = {.slow = "dram"}) const {
    return *Index::Open(path(), options);
  }

  struct Found {
    double recall = 0;
    std::uint64_t most = 0;  ///< distances and estimates of a query
    Counters total;
  };
  /// The share of the answers that are as near as those of a scan of all vectors, but for
  /// rounding.
  Found Search(const std::shared_ptr<const Index>& index, const SearchParams& params) const {
    const auto exact_index = Open();
    Searcher searcher(index), exact(exact_index);
    Found found;
    for (std::uint64_t i = 0; i < queries_.n(); ++i) {
      Answer answer, expected;
      Counters counters;
      const auto resolved = index->Resolve(params);
      EXPECT_TRUE(resolved.ok()) << resolved.status();
      EXPECT_TRUE(searcher.Search(queries_.Row(i), resolved->params, &answer, &counters).ok());
      const SearchParams scan{.k = params.k, .mode = SearchMode::kScan};
      EXPECT_TRUE(exact.Search(queries_.Row(i), scan, &expected).ok());
      EXPECT_EQ(answer.nearest.size(), params.k);
      const float kth = expected.nearest.back().distance,
                  most = kth + 1e-5f * std::max(std::abs(kth), 0.1f);
      for (const Neighbor& neighbor : answer.nearest)
        found.recall += neighbor.distance <= most ? 1.0 / (params.k * queries_.n()) : 0;
      found.most = std::max(found.most,
                            counters.distances_fast + counters.distances_slow + counters.estimates);
      found.total += counters;
    }
    return found;
  }
  const VectorFile& queries() const { return queries_; }

 private:
  static std::string Suffix(DType dtype) {
    return SuffixOf(dtype == DType::kF16 ? DType::kF32 : dtype);
  }

  SampleFolder folder_;
  BuildReport report_;
  VectorFile queries_;
};

/// Copies of 50 vectors at many scales, or as they are.
struct FewDirections {
  DType dtype;
  Metric metric;
  bool scaled = true;
  std::uint64_t memory = 0;
};

TEST(FewDirections, AreFoundAtTheCostOfAScan) {
  constexpr std::uint32_t kDim = 16, kRows = 20000;
  for (const FewDirections& of : {FewDirections{DType::kF32, Metric::kCosine},
                                  {DType::kF16, Metric::kCosine},
                                  {DType::kF16, Metric::kL2, false},
                                  {DType::kU8, Metric::kCosine},
                                  {DType::kI8, Metric::kCosine},
                                  {DType::kF32, Metric::kL2, false},
                                  {DType::kF32, Metric::kCosine, true, 200u << 20}}) {
    SCOPED_TRACE(absl::StrCat(std::string(Name(of.dtype)), " ", std::string(Name(of.metric))));
    Normal normal(1);
    const bool whole = !IsFloat(of.dtype);
    const auto component = [&](int at_most) {
      const auto x = std::round(normal() * 3);
      return !whole ? normal()
                    : std::clamp(of.dtype == DType::kU8 ? std::abs(x) : x, -1.0f * at_most,
                                 1.0f * at_most);
    };
    const Rows directions = MakeRows(50, kDim, [&](std::uint32_t, float* row) {
      for (std::uint32_t i = 0; i < kDim; ++i) row[i] = i == 0 ? 1 : component(7);
    });
    std::mt19937 random(2);
    const Rows rows = MakeRows(kRows, kDim, [&](std::uint32_t, float* row) {
      const float* from = &directions[std::size_t{random() % 50} * kDim];
      const float scale = !of.scaled ? 1.0f
                          : whole    ? static_cast<float>(1 + random() % 18)
                                     : static_cast<float>(1 + random() % 1000) / 50;
      for (std::uint32_t i = 0; i < kDim; ++i) {
        row[i] = from[i] * scale;
        if (!of.scaled && i > 0 && i < 6) row[i] = random() % 2 == 0 ? 0.0f : -0.0f;
      }
    });
    const Rows queries = MakeRows(100, kDim, [&](std::uint32_t, float* row) {
      for (std::uint32_t i = 0; i < kDim; ++i) row[i] = i == 0 ? 1 : component(100);
    });
    const Built built(of.dtype, of.metric, kDim, rows, queries, of.memory);
    EXPECT_GE(built.report().duplicates, kRows - 500u);
    EXPECT_LE(built.report().repaired_nodes, 500u);
    const Built::Found found = built.Search(built.Open(), {.k = 10});
    EXPECT_GE(found.recall, 0.95);
    EXPECT_LE(found.most, 2 * kRows);
  }
}

/// A set that is hard for a graph.
struct OddSet {
  std::string name;
  DType dtype;
  Metric metric;
  std::uint32_t dim;
  std::function<void(Normal&, std::uint32_t row, float* components)> fill;
};

/// A filler that computes each component by itself.
auto Each(std::uint32_t dim, std::function<float(Normal&, std::uint32_t, std::uint32_t)> of) {
  return [dim, of = std::move(of)](Normal& normal, std::uint32_t row, float* components) {
    for (std::uint32_t i = 0; i < dim; ++i) components[i] = of(normal, row, i);
  };
}

std::vector<OddSet> OddSets() {
  using enum DType;
  using enum Metric;
  const auto normal = [](Normal& next, std::uint32_t, std::uint32_t) { return next(); };
  const auto byte = [](Normal& next, std::uint32_t, std::uint32_t i) {
    return i == 0 ? 1 : std::min(127.0f, std::abs(std::round(20 * next())));
  };
  const auto heavy = [](Normal& next, std::uint32_t, std::uint32_t) {
    return next() / std::max(0.01f, std::abs(next()));
  };
  const auto clusters = [](Normal& next, std::uint32_t row, std::uint32_t) {
    return (row % 2 == 0 ? 10.0f : -10.0f) + 1e-3f * next();
  };
  const auto hubs = [](Normal& next, std::uint32_t row, std::uint32_t) {
    return (row % 50 == 0 ? 0.1f : 1.0f) * next();
  };
  const auto outlier = [](Normal& next, std::uint32_t row, std::uint32_t) {
    return row == 7 ? 1e6f : next();
  };
  const auto line = [](Normal&, std::uint32_t row, std::uint32_t i) {
    return 0.001f * static_cast<float>(row) + static_cast<float>(i);
  };
  const auto same = [](Normal&, std::uint32_t, std::uint32_t i) { return 1.0f + i % 3; };
  const auto few = [](Normal& next, std::uint32_t row, std::uint32_t i) {
    return std::round(100 * std::sin(1.0f + row % 20 * 7 + i * 3)) / 10 + 0 * next();
  };
  const auto near = [](Normal& next, std::uint32_t row, std::uint32_t i) {
    return 3 + std::sin(1.0f + row % 20 * 7 + i * 3) + 1e-6f * next();
  };
  const auto spiky = [](Normal& next, std::uint32_t row, std::uint32_t i) {
    return i == row % 24 ? 10 + next() : 0.0f;
  };
  return {
      {"low dimension", kF32, kL2, 2, Each(2, normal)},
      {"one dimension", kF32, kL2, 1, Each(1, normal)},
      {"high dimension", kF32, kL2, 400, Each(400, normal)},
      {"high dimension", kF16, kCosine, 300, Each(300, normal)},
      {"high dimension", kF32, kInnerProduct, 200, Each(200, normal)},
      {"bytes", kU8, kL2, 100, Each(100, byte)},
      {"bytes", kI8, kInnerProduct, 50, Each(50, byte)},
      {"bytes", kU8, kCosine, 64, Each(64, byte)},
      {"one direction", kF32, kL2, 8, Each(8, line)},
      {"one direction", kF32, kInnerProduct, 8, Each(8, line)},
      {"two clusters", kF32, kL2, 24, Each(24, clusters)},
      {"two clusters", kF16, kL2, 24, Each(24, clusters)},
      {"heavy tail", kF32, kL2, 16, Each(16, heavy)},
      {"heavy tail", kF32, kInnerProduct, 16, Each(16, heavy)},
      {"hubs", kF32, kL2, 32, Each(32, hubs)},
      {"one far outlier", kF32, kL2, 24, Each(24, outlier)},
      {"all equal", kF32, kCosine, 12, Each(12, same)},
      {"all equal", kU8, kL2, 12, Each(12, same)},
      {"few vectors", kI8, kCosine, 10, Each(10, few)},
      {"near copies", kF32, kL2, 10, Each(10, near)},
      {"near copies", kF16, kInnerProduct, 10, Each(10, near)},
      {"spikes", kF32, kCosine, 24, Each(24, spiky)},
  };
}

TEST(Scan, NoSearchComputesTwiceItsDistances) {
  constexpr std::uint32_t kQueries = 10;
  std::size_t sets = 0;
  for (const OddSet& set : OddSets()) {
    for (const std::uint32_t n : {20u, 300u, 1500u}) {
      SCOPED_TRACE(absl::StrCat(set.name, " ", std::string(Name(set.dtype)), " ",
                                std::string(Name(set.metric)), ", n ", n));
      Normal normal(n);
      const auto fill = [&](std::uint32_t row, float* to) { set.fill(normal, row, to); };
      const Rows rows = MakeRows(n, set.dim, fill), queries = MakeRows(kQueries, set.dim, fill);
      const Built built(set.dtype, set.metric, set.dim, rows, queries);
      for (const std::uint32_t bits : {0u, 4u}) {
        const auto index = built.Open({.slow = "dram", .sq_bits = bits});
        for (const std::optional<SearchMode> mode :
             {std::optional<SearchMode>(), std::optional(SearchMode::kMultiStart),
              std::optional(SearchMode::kGraph), std::optional(SearchMode::kScan)}) {
          for (const std::uint32_t k : {1u, 10u}) {
            const Built::Found found = built.Search(index, {.k = k, .mode = mode});
            EXPECT_LE(found.most, 2 * n) << bits << " bits, k " << k << ", mode "
                                         << (mode.has_value() ? Name(*mode) : "default");
            if (mode == SearchMode::kScan) {
              EXPECT_DOUBLE_EQ(found.recall, 1.0);
              EXPECT_EQ(found.most, n);
            }
          }
        }
      }
      // All of L1 as candidates.
      const SearchParams beams{
          .k = 10, .ef_l1 = n, .ef_l0 = 40, .mode = SearchMode::kMultiStart, .query_threads = 2};
      EXPECT_LE(built.Search(built.Open(), beams).most, 2 * n);
      ++sets;
    }
  }
  EXPECT_GE(sets, 60u);
}

/// Uniform vectors in many dimensions, among which no graph finds its way.
TEST(Scan, TakesOverFromATraversalThatTakesLonger) {
  constexpr std::uint32_t kDim = 64, kRows = 1000;
  Normal normal(3);
  const auto fill = [&](std::uint32_t, float* row) {
    for (std::uint32_t i = 0; i < kDim; ++i) row[i] = normal();
  };
  const Rows rows = MakeRows(kRows, kDim, fill), queries = MakeRows(50, kDim, fill);
  const Built built(DType::kF32, Metric::kL2, kDim, rows, queries);
  const Built::Found found = built.Search(built.Open(), {.k = 100});
  EXPECT_GE(found.recall, 0.999) << "all were scanned, by codes";
  EXPECT_LE(found.total.distances_fast + found.total.distances_slow, 51 * std::uint64_t{kRows})
      << "what a traversal has met is not compared again";
  const Built::Found named = built.Search(built.Open(), {.k = 100, .mode = SearchMode::kGraph});
  EXPECT_LT(named.recall, 1.0) << "who names the mode gets it";
}

/// The sample, with codes of every kind.
class SampleScan : public testing::Test {
 protected:
  void SetUp() override {
    options_.base = "datasets/sample/base.u8bin";
    options_.out = folder_ / "sample.hmann";
    MustBuild(options_);
  }
  /// Labels of the ten nearest of each query. `in_place`: of a search by another mode,
  /// which a scan replaces.
  std::vector<std::vector<std::uint64_t>> Search(const OpenOptions& open, bool in_place,
                                                 Counters* counters) {
    const auto index = *Index::Open(options_.out, open);
    Searcher searcher(index);
    std::vector<std::vector<std::uint64_t>> labels(queries_.n());
    for (std::uint64_t i = 0; i < queries_.n(); ++i) {
      Answer answer;
      ResolvedParams params = index->Resolve({.k = 10, .mode = SearchMode::kScan})->params;
      if (in_place) params.is_exact = false;
      EXPECT_TRUE(searcher.Search(queries_.Row(i), params, &answer, counters).ok());
      for (const Neighbor& neighbor : answer.nearest) labels[i].push_back(neighbor.label);
    }
    return labels;
  }

  SampleFolder folder_;
  BuildOptions options_;
  const VectorFile queries_ = *VectorFile::Open("datasets/sample/query.u8bin");
};

TEST_F(SampleScan, InPlaceOfASearchItReadsByCodesOnce) {
  Counters exact;
  const auto expected = Search({.slow = "dram"}, true, &exact);
  EXPECT_EQ(exact.distances_fast + exact.distances_slow, 10000 * queries_.n());
  for (const char* slow : {"nvme", "emulated:lat=1ns"}) {
    SCOPED_TRACE(slow);
    Counters counters;
    const auto found = Search({.slow = slow}, true, &counters);
    std::size_t same = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const std::uint64_t label : found[i])
        same += std::count(expected[i].begin(), expected[i].end(), label);
    }
    EXPECT_GE(same, 10 * queries_.n() * 98 / 100);
    EXPECT_GE(counters.estimates, 8000 * queries_.n()) << "all codes";
    EXPECT_LE(counters.distances_slow, 100 * queries_.n());
    EXPECT_LE(counters.hops, queries_.n() * 3 / 2) << "mostly one round of reads";
  }
}

TEST_F(SampleScan, IsExactOnEveryTier) {
  const auto expected = Search({.slow = "dram"}, false, nullptr);
  for (const OpenOptions& open : {OpenOptions{.slow = "nvme"},
                                  {.slow = "emulated:lat=1ns"},
                                  {.slow = "mapped"},
                                  {.slow = "dram", .sq_bits = 8},
                                  {.slow = "dram", .sq_bits = 4}}) {
    SCOPED_TRACE(absl::StrCat(open.slow, " ", open.sq_bits.value_or(0)));
    Counters counters;
    EXPECT_EQ(Search(open, false, &counters), expected);
    EXPECT_EQ(counters.distances_fast + counters.distances_slow, 10000 * queries_.n());
    EXPECT_EQ(counters.estimates, 0u);
  }
}

/// The 1 % farthest of a query differ by less than the errors of codes.
TEST(Scan, AmongFarMatchesCodesDoNotDecide) {
  constexpr std::uint32_t kDim = 24, kRows = 6000, kQueries = 30;
  for (const auto& [dtype, metric] : {std::pair(DType::kF32, Metric::kL2),
                                      {DType::kF16, Metric::kCosine},
                                      {DType::kU8, Metric::kL2},
                                      {DType::kF32, Metric::kInnerProduct}}) {
    Normal normal(5);
    const auto fill = [&](std::uint32_t row, float* to) {
      for (std::uint32_t i = 0; i < kDim; ++i)
        to[i] =
            std::clamp(std::round(128 + 20 * normal() + (i == row % kDim ? 60 : 0)), 0.0F, 255.0F);
    };
    const Rows rows = MakeRows(kRows, kDim, fill), queries = MakeRows(kQueries, kDim, fill);
    const Built built(dtype, metric, kDim, rows, queries);
    const auto exact_index = built.Open();
    for (const std::uint32_t bits : {0u, 4u, 8u}) {
      const auto index = built.Open({.slow = "dram", .sq_bits = bits, .coarse_codes = true});
      Searcher searcher(index), exact(exact_index);
      for (std::uint32_t q = 0; q < kQueries; ++q) {
        SCOPED_TRACE(absl::StrCat(std::string(Name(dtype)), " ", bits, " bits, query ", q));
        const void* const query = built.queries().Row(q);
        Answer all, expected, answer;
        ASSERT_TRUE(exact.Search(query, {.k = kRows, .mode = SearchMode::kScan}, &all).ok());
        ASSERT_EQ(all.nearest.size(), kRows);
        for (const std::uint32_t matching : {kRows / 100, kRows / 10}) {
          std::set<std::uint64_t> far;
          for (std::uint32_t i = kRows - matching; i < kRows; ++i) far.insert(all.nearest[i].label);
          const Matches matches =
              *index->Matching([&](std::uint64_t label) { return far.contains(label); });
          for (const SearchParams& params :
               {SearchParams{.k = 10, .mode = SearchMode::kScan, .matches = &matches},
                {.k = 10, .matches = &matches}}) {
            ASSERT_TRUE(searcher.Search(query, params, &answer).ok());
            ASSERT_EQ(answer.nearest.size(), 10u);
            for (std::uint32_t i = 0; i < 10; ++i)
              EXPECT_FLOAT_EQ(answer.nearest[i].distance,
                              all.nearest[kRows - matching + i].distance);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace hmann
