/// Tuning on real vectors: what it says of the queries that it learned from is what they
/// show, and it holds for queries that it has not seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "datasets/recall.h"
#include "datasets/vector_file.h"
#include "index/base/random.h"
#include "index/construct/testing/build_samples.h"
#include "index/index_impl.h"
#include "index/tune/learning_set.h"
#include "index/tune/tune_index.h"

namespace hmann {
namespace {

constexpr std::uint32_t kK = 10;
constexpr std::uint64_t kIndexed = 7200, kLearned = 800;

/// The dials of the tuned table for a recall.
absl::StatusOr<Dials> DialsFor(const Index& index, double recall) {
  const auto resolved = index.Resolve({.k = kK, .recall = recall});
  if (!resolved.ok()) return resolved.status();
  return resolved->dials;
}

/// The sample's descriptors in a random order: 7,200 are indexed, 800 learned from, 2,000
/// never seen. The tuner runs once.
class TuningOfRealVectors : public ::testing::Test {
 protected:
  struct Made {
    SampleFolder folder;
    BuildOptions build;
    TuneOptions options;
    TuningRun run;
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
    SplitSample();
    MustBuild(made_->build);
    Progress quiet(Progress::Show::kNever);
    auto run = TuneIndex(made_->options, {}, quiet);
    ASSERT_TRUE(run.ok()) << run.status();
    made_->run = *std::move(run);
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

  struct Ran {
    double recall = 0, deviation = 0;
    Counters every_fourth;
  };
  /// Every query of a set at a setting, by a searcher of its own.
  static Ran RunAll(const LearningSet& set, const Dials& dials) {
    Searcher searcher(made_->index);
    Ran ran;
    std::vector<double> recalls;
    for (std::uint64_t query = 0; query < set.n(); ++query) {
      Answer answer;
      EXPECT_TRUE(
          searcher
              .Search(set.Row(query), dials, &answer, query % 4 == 0 ? &ran.every_fourth : nullptr)
              .ok());
      std::vector<std::uint64_t> ids;
      for (const Neighbour& neighbour : answer.nearest) ids.push_back(neighbour.label);
      recalls.push_back(RecallAtK(set.truth, query, kK, ids, {}));
    }
    const auto n = static_cast<double>(recalls.size());
    ran.recall = std::accumulate(recalls.begin(), recalls.end(), 0.0) / n;
    for (const double recall : recalls)
      ran.deviation += (recall - ran.recall) * (recall - ran.recall) / n;
    ran.deviation = std::sqrt(ran.deviation);
    return ran;
  }

  static inline Made* made_ = nullptr;
};

TEST_F(TuningOfRealVectors, DialsForARecallReachItOnQueriesThatWereNotLearnedFrom) {
  ASSERT_EQ(made_->unseen.n(), 2000u);
  for (const double target : {0.9, 0.95, 0.99}) {
    const auto chosen = DialsFor(*made_->index, target);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const Ran unseen = RunAll(made_->unseen, *chosen);
    // Both means are of samples: three standard errors of their difference, and what the
    // tuner forgives a target's lower bound.
    const double samples =
        1 / static_cast<double>(made_->learned.n()) + 1 / static_cast<double>(made_->unseen.n());
    const double chance = 3 * unseen.deviation * std::sqrt(samples) + kRecallSlack;
    EXPECT_LT(chance, 0.02) << "the samples are too small to tell";
    EXPECT_GE(unseen.recall, target - chance) << DescribeDials(*chosen);
  }
  const double least = RunAll(made_->unseen, *DialsFor(*made_->index, 0.9)).recall;
  EXPECT_LT(least, RunAll(made_->unseen, *DialsFor(*made_->index, 0.99)).recall);
}

TEST_F(TuningOfRealVectors, TheTableSaysWhatTheLearningQueriesShow) {
  ASSERT_EQ(made_->learned.n(), kLearned);
  const auto table =
      ReadTunedTable(made_->build.out, made_->index->info().content_hash, made_->index->info().n);
  ASSERT_TRUE(table.ok()) << table.status();
  const TunedEntry* entry = table->Find(PlacementOf(made_->options.open, 0), kK);
  ASSERT_TRUE(entry != nullptr);
  EXPECT_GT(entry->settings.size(), 5u);
  const Tuned& tuned = made_->run.of_k[0].tuned;
  ASSERT_EQ(entry->settings.size(), tuned.front.size());
  for (std::size_t i = 0; i < tuned.front.size(); ++i) {
    const TunedSetting& setting = entry->settings[i];
    EXPECT_EQ(setting.dials, tuned.settings[tuned.front[i]].dials) << "to the bit";
    EXPECT_NEAR(setting.recall, RunAll(made_->learned, setting.dials).recall, 1e-6)
        << DescribeDials(setting.dials);
  }
}

TEST_F(TuningOfRealVectors, CountsAreOfQueriesThatWereRun) {
  const Tuned& tuned = made_->run.of_k[0].tuned;
  std::size_t finalists = 0;
  for (const TriedSetting& tried : tuned.settings) {
    EXPECT_EQ(tried.measured.queries > 0, tried.fate != Fate::kDropped);
    EXPECT_EQ(tried.measured.counters.distances_fast > 0, tried.fate != Fate::kDropped);
    if (tried.fate != Fate::kFinalist) continue;
    ++finalists;
    EXPECT_EQ(tried.measured.queries, kLearned);
    ASSERT_EQ(tried.measured.counted, kLearned / 4);
    const Ran again = RunAll(made_->learned, tried.dials);
    for (const CounterName& counter : CounterNames()) {
      EXPECT_EQ(tried.measured.counters.*counter.value, again.every_fourth.*counter.value)
          << std::string(counter.name) << " at " << DescribeDials(tried.dials);
    }
  }
  EXPECT_GT(finalists, 5u);
}

TEST_F(TuningOfRealVectors, MostOfTheGridWasNeverRun) {
  const std::vector<TriedSetting>& grid = made_->run.of_k[0].tuned.settings;
  const auto never_run = std::count_if(grid.begin(), grid.end(), [](const TriedSetting& tried) {
    return tried.measured.queries == 0;
  });
  EXPECT_GT(2 * static_cast<std::size_t>(never_run), grid.size());
}

}  // namespace
}  // namespace hmann
