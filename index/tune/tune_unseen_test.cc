/// Tuning on real vectors: the reported figures match the queries that it learned from,
/// and they hold for unseen queries.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "datasets/vector_file.h"
#include "hmann/tune.h"
#include "index/base/random.h"
#include "index/construct/testing/build_samples.h"
#include "index/index_impl.h"
#include "index/tune/counting.h"
#include "index/tune/learning_set.h"

namespace hmann {
namespace {

constexpr std::uint32_t kK = 10;
constexpr std::uint64_t kIndexed = 7200, kLearned = 800;

/// The parameters of the tuned table for a recall.
absl::StatusOr<ResolvedParams> ParamsFor(const Index& index, double recall) {
  const auto resolved = index.Resolve({.k = kK, .recall = recall});
  if (!resolved.ok()) return resolved.status();
  return resolved->params;
}

/// The sample's descriptors in random order: 7,200 are indexed, 800 are learned from,
/// 2,000 are never seen. The tuner runs once.
class TuningOfRealVectors : public ::testing::Test {
 protected:
  struct Made {
    SampleFolder folder;
    BuildOptions build;
    TuneOptions options;
    TuneReport report;
    LearningSet learned, unseen;
    std::shared_ptr<const Index> index;
  };

  static void SetUpTestSuite() {
    made_ = new Made;
    made_->build.base = made_->folder / "base.u8bin";
    made_->build.out = made_->folder / "index.hmann";
    made_->build.m = 8;
    made_->build.ef_construction = 60;
    made_->options.index = made_->build.out;
    made_->options.queries = made_->folder / "learn.u8bin";
    made_->options.k = {kK};
    made_->options.most_query_threads = 1;
    made_->options.accept_noise = true;
    SplitSample();
    MustBuild(made_->build);
    Progress quiet(Progress::Show::kNever);
    auto run = Tune(made_->options, quiet);
    ASSERT_TRUE(run.ok()) << run.status();
    made_->report = *std::move(run);
    ReadSet(made_->options.queries, made_->learned);
    ReadSet(made_->folder / "unseen.u8bin", made_->unseen);
    made_->index = *Index::Open(made_->build.out, made_->options.open);
  }
  static void TearDownTestSuite() { delete made_; }
  void SetUp() override { ASSERT_TRUE(made_->index != nullptr); }

  static void SplitSample() {
    const auto sample = VectorFile::Open("datasets/sample/base.u8bin");
    ASSERT_TRUE(sample.ok()) << sample.status();
    std::vector<std::uint8_t> base, learn, unseen;
    std::uint64_t place = 0;
    for (const std::uint32_t row : RandomPermutation(static_cast<std::uint32_t>(sample->n()), 21)) {
      std::vector<std::uint8_t>& part = place < kIndexed              ? base
                                        : place < kIndexed + kLearned ? learn
                                                                      : unseen;
      const auto* values = reinterpret_cast<const std::uint8_t*>(sample->Row(row));
      part.insert(part.end(), values, values + sample->dim());
      ++place;
    }
    WriteRows(made_->build.base, sample->dim(), base);
    WriteRows(made_->options.queries, sample->dim(), learn);
    WriteRows(made_->folder / "unseen.u8bin", sample->dim(), unseen);
  }

  static void ReadSet(const std::string& queries, LearningSet& set) {
    Progress quiet(Progress::Show::kNever);
    LearningOptions options;
    options.index = made_->build.out;
    options.queries = queries;
    options.k = kK;
    auto read = MakeLearningSet(options, quiet);
    ASSERT_TRUE(read.ok()) << read.status();
    set = *std::move(read);
  }

  /// Runs every query of a set at a setting.
  static Counted RunAll(const LearningSet& set, const ResolvedParams& params) {
    return *CountingRuns(made_->index, set, 1, nullptr).Run(params, set.n());
  }

  static inline Made* made_ = nullptr;
};

TEST_F(TuningOfRealVectors, ParamsForARecallReachItOnQueriesThatWereNotLearnedFrom) {
  ASSERT_EQ(made_->unseen.n(), 2000u);
  for (const double target : {0.9, 0.95, 0.99}) {
    const auto chosen = ParamsFor(*made_->index, target);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const Counted unseen = RunAll(made_->unseen, *chosen);
    // Both means come from samples, so allow three standard errors of their difference.
    const double samples =
        1 / static_cast<double>(made_->learned.n()) + 1 / static_cast<double>(made_->unseen.n());
    const double chance = 3 * unseen.recall_deviation * std::sqrt(samples);
    EXPECT_LT(chance, 0.02) << "the samples are too small to tell";
    EXPECT_GE(unseen.recall, target - chance) << DescribeParams(*chosen);
  }
  const double least = RunAll(made_->unseen, *ParamsFor(*made_->index, 0.9)).recall;
  EXPECT_LT(least, RunAll(made_->unseen, *ParamsFor(*made_->index, 0.99)).recall);
}

TEST_F(TuningOfRealVectors, TheTableSaysWhatTheLearningQueriesShow) {
  ASSERT_EQ(made_->learned.n(), kLearned);
  const auto table =
      ReadTunedTable(made_->build.out, made_->index->info().content_hash, made_->index->info().n);
  ASSERT_TRUE(table.ok()) << table.status();
  const TunedEntry* entry = table->Find(PlacementOf(made_->options.open, 0), kK);
  ASSERT_TRUE(entry != nullptr);
  EXPECT_GE(entry->settings.size(), 2u) << "which others beat none depends on the clock";
  for (const TunedSetting& setting : entry->settings) {
    EXPECT_NEAR(setting.recall, RunAll(made_->learned, setting.params).recall, 1e-6)
        << DescribeParams(setting.params);
  }
}

TEST_F(TuningOfRealVectors, ARecallBetweenTwoSettingsIsReachedToo) {
  for (const double target : {0.88, 0.92, 0.96, 0.975}) {
    const Counted ran = RunAll(made_->learned, *ParamsFor(*made_->index, target));
    EXPECT_GE(ran.recall, target - 0.006) << target;
  }
}

TEST_F(TuningOfRealVectors, Equation31Chooses) {
  std::size_t dropped = 0;
  for (const Comparison& comparison : made_->report.of_k[0].comparisons) {
    dropped += comparison.dropped;
    EXPECT_LT(comparison.dropped, comparison.settings);
    EXPECT_TRUE(comparison.upper_dropped) << "the upper layers alone miss most neighbors";
  }
  EXPECT_GT(dropped, 0u);
}

}  // namespace
}  // namespace hmann
