/// Recall of the default parameters of an index, with and without its calibration.
#include "index/tune/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <random>

#include "datasets/recall.h"
#include "datasets/vector_file.h"
#include "hmann/build.h"
#include "hmann/hmann.h"
#include "hmann/tune.h"
#include "index/construct/testing/build_samples.h"
#include "index/tune/exact_search.h"

namespace hmann {
namespace {

constexpr std::uint32_t kQueries = 1000;

struct Outcome {
  double recall = 0;
  std::uint64_t distances = 0;
  std::optional<double> predicted = {};
};

class CalibrateTest : public ::testing::Test {
 protected:
  /// Makes an index of such vectors, and finds the neighbors of other vectors of the same
  /// kind.
  void Make(Shape shape, DType dtype, std::uint32_t dim, std::uint64_t n,
            Metric metric = Metric::kL2) {
    build_ = SmallBuild(folder_, dtype, metric, 10, dim);
    GenerateOptions generate{.shape = shape, .n = n, .dim = dim};
    ASSERT_TRUE(Generate(generate, build_.base, quiet_).ok());
    queries_ = folder_ / (dtype == DType::kF32 ? "query.fbin" : "query.u8bin");
    generate.first = n;
    generate.n = kQueries;
    ASSERT_TRUE(Generate(generate, queries_, quiet_).ok());
    MustBuild(build_);
  }

  Outcome Search(const SearchParams& options, const std::string& slow = "mapped") {
    return Search(options, OpenOptions{.slow = slow});
  }
  Outcome Search(const SearchParams& options, const OpenOptions& open) {
    const auto index = *Index::Open(build_.out, open);
    const auto file = *VectorFile::Open(queries_);
    const GroundTruth truth =
        *ExactSearch(*IndexFile::Open(build_.out), {file.Row(0), kQueries * file.row_bytes()},
                     options.k, 2, quiet_);
    const ResolvedSearch resolved = *index->Resolve(options);
    const ResolvedParams& params = resolved.params;
    Searcher searcher(index);
    Counters counters;
    Outcome outcome{.predicted = resolved.calibrated_recall};
    for (std::uint32_t i = 0; i < kQueries; ++i) {
      Answer answer;
      EXPECT_TRUE(searcher.Search(file.Row(i), params, &answer, &counters).ok());
      std::vector<std::uint64_t> ids;
      std::vector<float> distances;
      for (const Neighbor& neighbor : answer.nearest) {
        ids.push_back(neighbor.label);
        distances.push_back(neighbor.distance);
      }
      outcome.recall += RecallAtK(truth, i, options.k, ids, distances) / kQueries;
    }
    outcome.distances = counters.distances_fast + counters.distances_slow;
    return outcome;
  }

  Progress quiet_{Progress::Show::kNever};
  SampleFolder folder_;
  BuildOptions build_;
  std::string queries_;
};

/// By inner product, only the longest copies of a few directions are answers. A graph
/// that finds them is wider than a scan.
TEST_F(CalibrateTest, ScansWhatNoGraphFindsFaster) {
  constexpr std::uint32_t kDim = 16, kRows = 6000;
  const Generator generator = *Generator::Make({.n = kRows, .dim = kDim}, DType::kF32);
  std::vector<float> rows(std::size_t{kRows} * kDim), queries(std::size_t{kQueries} * kDim);
  for (std::uint32_t row = 0; row < kRows; ++row) {
    float* to = &rows[std::size_t{row} * kDim];
    generator.Row(row * 7 % 50, reinterpret_cast<std::byte*>(to));
    for (std::uint32_t i = 0; i < kDim; ++i) to[i] *= 1 + static_cast<float>(row % 997) / 100;
  }
  for (std::uint32_t i = 0; i < kQueries; ++i)
    generator.Row(1000 + i, reinterpret_cast<std::byte*>(&queries[std::size_t{i} * kDim]));
  build_ = SmallBuild(folder_, DType::kF32, Metric::kInnerProduct, 10, kDim);
  WriteRows(build_.base, kDim, rows);
  queries_ = folder_ / "query.fbin";
  WriteRows(queries_, kDim, queries);
  MustBuild(build_);
  ASSERT_TRUE(Calibrate(build_.out, {}, quiet_).ok());
  const Outcome found = Search({.k = 10});
  EXPECT_GE(found.recall, 0.95);
  EXPECT_LE(found.distances, std::uint64_t{2} * kRows * kQueries);
}

/// A search finds copies by the first of them. Where it is the one that is left out, the
/// others are still found.
TEST_F(CalibrateTest, CopiesAreFoundWithoutTheFirst) {
  constexpr std::uint32_t kDim = 16, kRows = 8000, kUnique = 700;
  const Generator generator = *Generator::Make({.n = kUnique, .dim = kDim}, DType::kU8);
  std::vector<std::uint8_t> rows(std::size_t{kRows} * kDim);
  for (std::uint32_t row = 0; row < kRows; ++row)
    generator.Row(row % kUnique, reinterpret_cast<std::byte*>(&rows[std::size_t{row} * kDim]));
  for (const BuildMethod method : {BuildMethod::kPartition, BuildMethod::kInsertion}) {
    build_ = SmallBuild(folder_, DType::kU8, Metric::kL2, 10, kDim);
    build_.method = method;
    WriteRows(build_.base, kDim, rows);
    EXPECT_EQ(MustBuild(build_).duplicates, kRows - kUnique);
    const auto made = Calibrate(build_.out, {}, quiet_);
    ASSERT_TRUE(made.ok()) << made.status();
    for (const Calibration::Curve& curve : made->curves) {
      const bool is_exact = curve.way.mode == SearchMode::kGraph && curve.way.scalar_bits == 0;
      if (!is_exact || curve.k > 10) continue;
      EXPECT_GE(curve.points.back().recall, 0.99) << curve.k;
    }
  }
}

/// Half of the vectors vary in a few components, and are near each other. Queries that
/// are like the other half find as much as is predicted, too.
TEST_F(CalibrateTest, QueriesOfTheHarderKindFindAsMuch) {
  constexpr std::uint32_t kDim = 40, kEasyDims = 8, kRows = 16000;
  const Generator generator =
      *Generator::Make({.shape = Shape::kUniform, .n = kRows + kQueries, .dim = kDim}, DType::kF32);
  std::vector<float> rows(std::size_t{kRows + kQueries} * kDim);
  for (std::uint32_t row = 0; row < kRows + kQueries; ++row) {
    float* to = &rows[std::size_t{row} * kDim];
    generator.Row(row, reinterpret_cast<std::byte*>(to));
    if (row < kRows && row % 2 == 0) std::fill(to + kEasyDims, to + kDim, 0.0f);
  }
  build_ = SmallBuild(folder_, DType::kF32, Metric::kL2, 10, kDim);
  queries_ = folder_ / "query.fbin";
  const auto queries = rows.begin() + std::ptrdiff_t{kRows} * kDim;
  WriteRows(queries_, kDim, std::vector<float>(queries, rows.end()));
  rows.erase(queries, rows.end());
  WriteRows(build_.base, kDim, rows);
  MustBuild(build_);
  const auto made = Calibrate(build_.out, {}, quiet_);
  ASSERT_TRUE(made.ok()) << made.status();
  const double found = Search({.k = 10}).recall;
  EXPECT_GT(found, 0.935) << "0.922 where the effort is the same for all";
  EXPECT_LT(found, 0.97);
  // The nearest of a vector that is left out is harder to find than that of a query.
  EXPECT_GT(Search({.k = 1}).recall, 0.935);
}

TEST_F(CalibrateTest, HardVectorsGetTheEffortThatTheyNeed) {
  Make(Shape::kUniform, DType::kF32, 32, 8000);
  const Outcome before = Search({.k = 10});
  EXPECT_LT(before.recall, 0.93) << "else this shows nothing";
  const auto made = Calibrate(build_.out, {}, quiet_);
  ASSERT_TRUE(made.ok()) << made.status();
  for (const Calibration::Curve& curve : made->curves) {
    if (curve.k != 1) continue;
    EXPECT_EQ(curve.queries, 2000u) << "a quarter of the vectors";
  }
  for (const char* slow : {"mapped", "nvme"}) {
    EXPECT_GT(Search({.k = 10}, slow).recall, 0.94) << slow;
    // Left-in vectors are too optimistic with so few vectors: 0.93 of 10,000 queries.
    EXPECT_GT(Search({.k = 1}, slow).recall, 0.91) << slow;
  }
  EXPECT_GT(Search({.k = 10, .recall = 0.985}).recall, 0.97);
}

TEST_F(CalibrateTest, EasyVectorsCostLess) {
  Make(Shape::kClustered, DType::kU8, 32, 8000);
  const Outcome before = Search({.k = 10});
  EXPECT_GT(before.recall, 0.97) << "else this shows nothing";
  ASSERT_TRUE(Calibrate(build_.out, {}, quiet_).ok());
  const Outcome after = Search({.k = 10});
  EXPECT_GT(after.recall, 0.93);
  EXPECT_LT(after.distances, before.distances);
  const auto index = *Index::Open(build_.out);
  const double told = *index->Resolve({.k = 10})->calibrated_recall;
  EXPECT_GE(told, 0.95);
  EXPECT_LT(told, 0.97) << "with nearly the least effort";
  EXPECT_FALSE(index->Resolve({.k = 10, .ef_l0 = 20})->calibrated_recall.has_value());
  EXPECT_EQ(index->Resolve({.recall = 0.999999}).status().code(), absl::StatusCode::kOutOfRange);
  const auto within = index->Resolve({.latency = std::chrono::seconds(1)});
  ASSERT_TRUE(within.ok()) << within.status();
  EXPECT_GE(within->tuned->recall, 0.985) << "the most that the calibration offers";
  EXPECT_GT(within->tuned->mean_us, 0);
  EXPECT_EQ(within->predicted_for, "vectors like the index");
  EXPECT_EQ(index->Resolve({.latency = std::chrono::seconds(1)})->params, within->params);
  EXPECT_EQ(index->Resolve({.latency = std::chrono::nanoseconds(1)}).status().code(),
            absl::StatusCode::kOutOfRange);
}

/// Vectors each of one direction and of very different lengths. The long ones are the
/// answers to every query, and they are promoted.
TEST_F(CalibrateTest, WherePromotedNodesAreTheAnswersL0IsLeftOut) {
  build_ = SmallBuild(folder_, DType::kF32, Metric::kInnerProduct, 10, 32);
  GenerateOptions generate{.shape = Shape::kClustered, .n = 8000, .dim = 32};
  generate.norm_sigma = 0.7;
  ASSERT_TRUE(Generate(generate, build_.base, quiet_).ok());
  queries_ = folder_ / "query.fbin";
  generate.first = generate.n;
  generate.n = kQueries;
  ASSERT_TRUE(Generate(generate, queries_, quiet_).ok());
  MustBuild(build_);
  const Outcome before = Search({.k = 10}, "nvme");
  ASSERT_TRUE(Calibrate(build_.out, {}, quiet_).ok());
  EXPECT_EQ((*Index::Open(build_.out, {.slow = "nvme"}))->Resolve({.k = 10})->params.mode,
            SearchMode::kUpper);
  const Outcome after = Search({.k = 10}, "nvme");
  EXPECT_GT(after.recall, 0.94);
  EXPECT_LT(after.distances, before.distances);
}

TEST_F(CalibrateTest, KnowsManyNeighborsAndScalarCodes) {
  Make(Shape::kClustered, DType::kF32, 32, 25000);
  const auto made = Calibrate(build_.out, {}, quiet_);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto has = [&](const Calibration::Way& way, std::uint32_t k) {
    return std::any_of(made->curves.begin(), made->curves.end(),
                       [&](const auto& curve) { return curve.way == way && curve.k == k; });
  };
  for (const std::uint32_t k : {1u, 10u, 100u, 1000u}) {
    EXPECT_TRUE(has({.mode = SearchMode::kGraph}, k)) << k;
    EXPECT_TRUE(has({.mode = SearchMode::kQuantized, .cells = true}, k)) << k;
  }
  EXPECT_FALSE(has({.mode = SearchMode::kGraph}, 10000)) << "of 25,000 vectors";
  EXPECT_TRUE(has({.mode = SearchMode::kGraph, .scalar_bits = 4}, 10));
  for (const std::uint32_t k : {1u, 10u, 100u, 300u}) {
    const double recall = Search({.k = k}).recall;
    EXPECT_GT(recall, k == 300 ? 0.91 : 0.925) << k << ", of which 300 is not calibrated";
    if (k == 10) {
      EXPECT_LT(recall, 0.98);
    }
  }
}

TEST_F(CalibrateTest, PredictsWhatScalarCodesFind) {
  Make(Shape::kUniform, DType::kF32, 3, 8000);  // near vectors have the same code
  ASSERT_TRUE(Calibrate(build_.out, {}, quiet_).ok());
  for (const std::uint32_t bits : {0u, 8u, 4u}) {
    const Outcome outcome = Search({.k = 100}, OpenOptions{.sq_bits = bits});
    if (outcome.predicted.has_value()) {
      EXPECT_NEAR(*outcome.predicted, outcome.recall, 0.005) << bits;
    }
  }
  EXPECT_FALSE(Search({.k = 500}).predicted.has_value()) << "beyond what was calibrated";
}

TEST_F(CalibrateTest, CodesThatAreTooCoarseAreRefusedByName) {
  constexpr std::uint32_t kDim = 64;
  build_ = SmallBuild(folder_, DType::kF32, Metric::kL2, 10, kDim);
  std::mt19937 random;
  std::vector<float> values(12000 * kDim);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::normal_distribution<float>()(random);
    if (i % kDim == 0) values[i] *= 1000;  // one long axis takes all levels
  }
  WriteRows(build_.base, kDim, values);
  MustBuild(build_);
  const auto open = [&](std::uint32_t bits) {
    return Index::Open(build_.out, {.sq_bits = bits}).status();
  };
  EXPECT_TRUE(open(8).ok()) << "nothing was measured";
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(Calibrate(build_.out, {}, quiet_).ok());
    for (const std::uint32_t bits : {8u, 4u}) {
      EXPECT_EQ(open(bits).code(), absl::StatusCode::kFailedPrecondition) << open(bits);
      EXPECT_THAT(std::string(open(bits).message()),
                  testing::HasSubstr(absl::StrCat("codes of ", bits, " bits are too coarse")));
    }
    EXPECT_TRUE(open(0).ok());
  }
}

TEST_F(CalibrateTest, QueriesOfTheUserDecide) {
  Make(Shape::kClustered, DType::kF32, 16, 2000);
  const auto by_file = Calibrate(build_.out, {.queries = queries_, .learn = 50}, quiet_);
  ASSERT_TRUE(by_file.ok()) << by_file.status();
  EXPECT_EQ(by_file->origin, queries_);
  EXPECT_EQ(by_file->curves.front().queries, 50u);
  const auto wrong = Calibrate(build_.out, {.queries = folder_ / "none.fbin"}, quiet_);
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(
      ReadTunedTable(build_.out, ReadInfo(build_.out)->content_hash, 2000)->calibration->origin,
      queries_)
      << "the one before stays";
}

TEST_F(CalibrateTest, KeepsWhatWasTunedAndReplacesWhatIsStale) {
  Make(Shape::kClustered, DType::kF32, 16, 1000);
  TuneOptions tune;
  tune.index = build_.out;
  tune.learn = 30;
  tune.most_query_threads = 1;
  tune.accept_noise = true;
  ASSERT_TRUE(Tune(tune, quiet_).ok());
  ASSERT_TRUE(Calibrate(build_.out, {}, quiet_).ok());
  EXPECT_TRUE((*Index::Open(build_.out))->Resolve({.recall = 0.9})->tuned.has_value());
  ASSERT_TRUE(Tune(tune, quiet_).ok());
  EXPECT_TRUE(
      (*Index::Open(build_.out))->Resolve({.k = 3, .recall = 0.9})->calibrated_recall.has_value())
      << "k = 3 is not tuned";
  std::ofstream(TunedPath(build_.out)) << "{}";
  ASSERT_TRUE(Calibrate(build_.out, {}, quiet_).ok());
  std::atomic<bool> cancelled{true};
  CalibrateOptions options;
  options.cancelled = &cancelled;
  EXPECT_EQ(Calibrate(build_.out, options, quiet_).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(CalibrateTest, AmongFewVectorsEveryAnswerIsExactAndSaidToBe) {
  for (const std::uint64_t n : {1u, 2u, 3u, 5u, 12u, 100u, 256u}) {
    Make(Shape::kUniform, DType::kF32, 32, n, n % 2 == 0 ? Metric::kCosine : Metric::kL2);
    for (const bool calibrated : {false, true}) {
      if (calibrated) {
        const auto made = Calibrate(build_.out, {}, quiet_);
        ASSERT_TRUE(made.ok()) << made.status();
        for (const Calibration::Curve& curve : made->curves)
          EXPECT_EQ(curve.points.back().recall, 1) << n;
      }
      for (const OpenOptions& open : {OpenOptions{}, OpenOptions{.slow = "nvme"},

                                      OpenOptions{.slow = "emulated:lat=300ns,bw=6GB/s,lines=12"},
                                      OpenOptions{.sq_bits = 4}}) {
        const auto index = Index::Open(build_.out, open);
        if (!index.ok()) continue;  // too few for these codes, or no such memory
        for (const std::uint32_t k : {1u, 2u, 5u, 12u, 100u}) {
          if (k > n) continue;
          for (const std::optional<double> target : {std::optional<double>(), {0.95}, {1.0}}) {
            const auto resolved = (*index)->Resolve({.k = k, .recall = target});
            ASSERT_TRUE(resolved.ok()) << resolved.status() << n;
            EXPECT_EQ(resolved->calibrated_recall, 1.0) << n;
          }
          EXPECT_NEAR(Search({.k = k}, open).recall, 1, 1e-9)
              << n << ' ' << k << open.slow << open.sq_bits.value_or(0);
        }
      }
    }
  }
}

/// Of one vector none can be left out; of any number, all are neighbors of all.
TEST_F(CalibrateTest, AsManyNeighborsAsVectorsCanBeTuned) {
  for (const std::uint32_t n : {1u, 12u}) {
    Make(Shape::kUniform, DType::kF32, 8, n);
    TuneOptions tune;
    tune.index = build_.out;
    tune.k = {n};
    tune.learn = 20;
    tune.most_query_threads = 1;
    tune.accept_noise = true;
    const auto tuned = Tune(tune, quiet_);
    ASSERT_TRUE(tuned.ok()) << tuned.status();
    EXPECT_EQ(tuned->of_k.front().entry.settings.back().recall, 1);
    EXPECT_TRUE((*Index::Open(build_.out))
                    ->Resolve({.k = n, .latency = std::chrono::seconds(1)})
                    ->tuned.has_value());
  }
}

TEST_F(CalibrateTest, ARecallOutOfReachNamesTheTuningThatMayReachIt) {
  Make(Shape::kUniform, DType::kF32, 32, 400);
  ASSERT_TRUE(Calibrate(build_.out, {}, quiet_).ok());
  const auto index = *Index::Open(build_.out, {.slow = "nvme"});
  EXPECT_THAT(std::string(index->Resolve({.k = 3, .recall = 1}).status().message()),
              testing::HasSubstr("run hmann tune INDEX --queries Q --k 3 --recall 1"));
}

}  // namespace
}  // namespace hmann
