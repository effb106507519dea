/// Tunes a real index from end to end: the table that it leaves, its effect on a search,
/// and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include "datasets/ground_truth.h"
#include "datasets/toolbox/split.h"
#include "datasets/vector_file.h"
#include "hmann/tune.h"
#include "index/construct/testing/build_samples.h"
#include "index/tune/counting.h"
#include "index/tune/exact_search.h"
#include "index/tune/learning_set.h"
#include "index/tune/wide_search.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

class TuneIndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    build_ = SmallBuild(folder_, DType::kU8, Metric::kL2, 1500, 24);
    build_.promote = 0.1;
    MustBuild(build_);
    options_.index = build_.out;
    options_.learn = 60;
    options_.most_query_threads = 1;
    options_.accept_noise = true;  // other tests run at the same time
  }

  absl::StatusOr<TuneReport> Run() {
    Progress quiet(Progress::Show::kNever);
    return Tune(options_, quiet);
  }

  std::shared_ptr<const Index> Open(const std::string& slow = "mapped") const {
    OpenOptions open;
    open.slow = slow;
    return *Index::Open(build_.out, open);
  }

  SampleFolder folder_;
  BuildOptions build_;
  TuneOptions options_;
};

TEST_F(TuneIndexTest, LeavesATableThatSearchesUse) {
  options_.k = {1, 10};
  options_.targets = {{.recall = 0.9}};
  const auto report = Run();
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->of_k.size(), 2u);
  const TunedForK& of_k = report->of_k[1];
  EXPECT_EQ(of_k.entry.k, 10u);
  EXPECT_EQ(of_k.entry.queries, 60u);
  EXPECT_EQ(of_k.entry.origin, "left out in turn");
  ASSERT_EQ(of_k.comparisons.size(), 1u);
  EXPECT_GT(of_k.comparisons[0].settings + of_k.comparisons[0].unable, 10u);
  EXPECT_GT(of_k.equation.fast_ns, 0);

  const auto index = Open();
  const auto chosen = index->Resolve({.recall = 0.9});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_TRUE(chosen->tuned.has_value());
  EXPECT_GE(chosen->tuned->recall, 0.9);
  ASSERT_TRUE(of_k.choices.at(0).setting.ok());
  EXPECT_EQ(of_k.choices[0].setting->params, chosen->tuned->params);
  EXPECT_EQ(chosen->params, chosen->tuned->params);
  EXPECT_EQ(index->Resolve({.k = 1, .latency = std::chrono::seconds(1)})->params.k, 1u);
  const TunedEntry& of_ten = of_k.entry;
  EXPECT_GE(of_ten.in_flight, 1u);
  EXPECT_GT(of_ten.in_flight_gain, 0.9) << "one at a time is among those it was chosen from";
  EXPECT_EQ(chosen->in_flight, of_ten.in_flight);
  EXPECT_EQ(index->Resolve({.k = 10, .ef_l0 = 20})->in_flight, of_ten.in_flight);
  EXPECT_THAT(index->Choices(), testing::Contains(HasSubstr("as hmann tune measured")));
  EXPECT_EQ(Open("dram")->Resolve({})->in_flight, 4u);
  EXPECT_THAT(Open("dram")->Choices(), testing::ElementsAre(HasSubstr("a guess")));
  EXPECT_EQ(index->Resolve({.prefetch = Prefetch::kOff, .recall = 0.9})->params.prefetch,
            Prefetch::kOff)
      << "may be said beside a target";
  EXPECT_EQ(index->Resolve({.epsilon = 0.2f, .recall = 0.9}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(index->Resolve({.k = 7, .recall = 0.9}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(index->Resolve({.latency = std::chrono::nanoseconds(1)}).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Open("dram")->Resolve({.recall = 0.9}).status().code(), absl::StatusCode::kNotFound)
      << "another placement";
}

TEST_F(TuneIndexTest, KeepsTheEntriesOfOtherPlacements) {
  ASSERT_TRUE(Run().ok());
  options_.open.slow = "dram";
  ASSERT_TRUE(Run().ok());
  EXPECT_TRUE(Open("mapped")->Resolve({.latency = std::chrono::seconds(1)}).ok());
  EXPECT_TRUE(Open("dram")->Resolve({.latency = std::chrono::seconds(1)}).ok());
}

TEST_F(TuneIndexTest, ATableOfAnIndexThatWasRebuiltIsRefusedUntilItIsTunedAgain) {
  ASSERT_TRUE(Run().ok());
  build_.promote = 0.2;
  MustBuild(build_);
  const absl::Status stale = Open()->Resolve({.recall = 0.9}).status();
  EXPECT_EQ(stale.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(stale.message(), HasSubstr("stale"));
  const auto again = Run();
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_GE(again->warnings.size(), 1u);
  EXPECT_THAT(again->warnings[0], HasSubstr("stale"));
  EXPECT_TRUE(Open()->Resolve({.latency = std::chrono::seconds(1)}).ok());
}

TEST_F(TuneIndexTest, AnIndexWithoutATableOpensAndSaysSo) {
  const auto index = Open();
  EXPECT_EQ(index->Resolve({.recall = 0.9}).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(TunedPath(build_.out)) << "{";
  EXPECT_EQ(Open()->Resolve({.recall = 0.9}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(TuneIndexTest, NamesWhatItCannotLearnFrom) {
  options_.queries = folder_ / "empty.u8bin";
  std::ofstream(options_.queries, std::ios::binary).write("\0\0\0\0\30\0\0\0", 8);
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Run().status().message(), HasSubstr("empty.u8bin"));

  options_.queries = folder_ / "other.u8bin";
  WriteGenerated(options_.queries, {.n = 20, .dim = 25, .intrinsic_dim = 3, .clusters = 2});
  EXPECT_THAT(Run().status().message(),
              HasSubstr("expected vectors of 24 x u8 as in the index, found 25 x u8"));

  options_.queries = build_.base;
  options_.groundtruth = folder_ / "short.gt";
  ASSERT_TRUE(WriteGroundTruth(options_.groundtruth,
                               {.n = 1, .k = 3, .ids = {1, 2, 3}, .distances = {1, 2, 3}})
                  .ok());
  EXPECT_THAT(Run().status().message(), HasSubstr("short.gt: the ground truth "));

  options_.queries = options_.groundtruth = "";
  options_.k = {1501};
  EXPECT_THAT(Run().status().message(),
              HasSubstr("k: expected 1 to the 1500 vectors of the index, found 1501"));
  options_.k = {};
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kInvalidArgument);
  options_.k = {10};
  options_.targets = {{.recall = 1.5}};
  EXPECT_THAT(Run().status().message(), HasSubstr("recall"));
  EXPECT_FALSE(std::ifstream(TunedPath(build_.out)).good()) << "nothing was stored";
}

/// Other processes that keep the CPU busy, twice as many as there are cores.
class Spinning {
 public:
  Spinning() {
    for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
      children_.push_back(fork());
      if (children_.back() == 0) {
        for (;;) getppid();
      }
    }
  }
  ~Spinning() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }

 private:
  std::vector<pid_t> children_;
};

TEST_F(TuneIndexTest, OnAMachineThatIsNotQuietOnlyWhatIsThereStays) {
  options_.targets = {{.recall = 0.9}};
  options_.accept_noise = false;
  const Spinning others;
  const auto stored = [this] {
    return ReadTunedTable(build_.out, Open()->info().content_hash, Open()->info().n)->entries;
  };
  const auto first = Run();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->warnings, testing::Contains(HasSubstr("not quiet")));
  ASSERT_EQ(stored().size(), 1u);
  EXPECT_TRUE(Open()->Resolve({.latency = std::chrono::seconds(1)}).ok());

  const std::uint64_t learned = stored()[0].queries;
  options_.learn = learned - 10;
  const auto second = Run();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(second->warnings, testing::Contains(HasSubstr("stays; --accept-noise")));
  EXPECT_EQ(second->of_k[0].entry.queries, learned);
  EXPECT_EQ(stored()[0].queries, learned) << "noise does not replace it";
  options_.k = {10, 5};
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(stored().size(), 2u) << "of another k there was nothing";

  options_.k = {10};
  options_.accept_noise = true;
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(stored().size(), 2u);
  for (const TunedEntry& entry : stored()) EXPECT_LT(entry.queries, learned);
}

TEST_F(TuneIndexTest, LearningAndTestQueriesAreDisjoint) {
  Progress quiet(Progress::Show::kNever);
  LearningOptions learn;
  learn.index = build_.out;
  learn.queries = build_.base;
  learn.most = 700;
  const auto first = MakeLearningSet(learn, quiet);
  learn.first = 700;
  learn.most = 10000;
  const auto second = MakeLearningSet(learn, quiet);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_EQ(first->n(), 700u);
  EXPECT_EQ(second->n(), 800u);
  // Queries are indexed vectors here, so the nearest of each is itself.
  std::vector<std::uint64_t> seen;
  for (const LearningSet* set : {&*first, &*second}) {
    for (std::uint64_t i = 0; i < set->n(); ++i) seen.push_back(set->truth.Ids(i)[0]);
  }
  std::sort(seen.begin(), seen.end());
  // Apart from copies of a vector, no row occurs twice.
  EXPECT_GT(std::unique(seen.begin(), seen.end()) - seen.begin(), 1490);
}

TEST_F(TuneIndexTest, AWideSearchFindsWhatComparingWithAllFinds) {
  const auto file = IndexFile::Open(build_.out);
  const auto base = VectorFile::Open(build_.base);
  const std::vector<std::byte> queries(base->Row(0), base->Row(0) + std::ptrdiff_t{24} * 1400);
  Progress quiet(Progress::Show::kNever);
  const auto exact = ExactSearch(*file, queries, 10, 2, quiet),
             wide = WideSearch(build_.out, *file, queries, 10, quiet);
  ASSERT_TRUE(exact.ok() && wide.ok()) << wide.status();
  ASSERT_EQ(wide->n, 1400u);
  std::size_t equal = 0;
  for (std::size_t i = 0; i < exact->distances.size(); ++i)
    equal += exact->distances[i] == wide->distances[i] ? 1 : 0;
  EXPECT_GT(equal, exact->distances.size() * 0.998);
}

TEST_F(TuneIndexTest, ExactSearchIsBruteForce) {
  const auto file = IndexFile::Open(build_.out);
  ASSERT_TRUE(file.ok());
  const auto base = VectorFile::Open(build_.base);
  const std::vector<std::byte> queries(base->Row(0), base->Row(0) + std::ptrdiff_t{24} * 20);
  Progress quiet(Progress::Show::kNever);
  const auto truth = ExactSearch(*file, queries, 5, 2, quiet);
  ASSERT_TRUE(truth.ok()) << truth.status();
  for (std::uint64_t query = 0; query < 20; ++query) {
    std::vector<std::pair<float, std::uint64_t>> all;
    for (std::uint64_t row = 0; row < base->n(); ++row) {
      float sum = 0;
      for (std::size_t i = 0; i < 24; ++i) {
        const float gap =
            static_cast<float>(queries[24 * query + i]) - static_cast<float>(base->Row(row)[i]);
        sum += gap * gap;
      }
      all.emplace_back(sum, row);
    }
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(truth->Distances(query)[i], all[i].first);
      EXPECT_TRUE(std::find(all.begin(), all.end(),
                            std::pair(all[i].first, truth->Ids(query)[i])) != all.end());
    }
  }
}

TEST_F(TuneIndexTest, OfShardsNeighborsCountThatAreAmongTheNearestOfAll) {
  Progress quiet(Progress::Show::kNever);
  const VectorFile base = *VectorFile::Open(build_.base);
  ASSERT_TRUE(SplitVectors(base, {.shards = 4}, folder_ / "shards", quiet).ok());
  const std::vector<std::byte> queries(base.Row(0), base.Row(0) + std::ptrdiff_t{24} * 1500);
  const GroundTruth all = *ExactSearch(*IndexFile::Open(build_.out), queries, 10, 2, quiet);
  ASSERT_TRUE(WriteGroundTruth(folder_ / "all.gt", all).ok());
  build_.base = folder_ / "shards/shard-0.u8bin";
  build_.labels = folder_ / "shards/shard-0.labels";
  build_.out = folder_ / "shard.hmann";
  MustBuild(build_);
  LearningOptions learn{.index = build_.out};
  learn.queries = folder_ / "base_1500_24.u8bin";
  learn.groundtruth = folder_ / "all.gt";
  learn.of_shards = 4;
  learn.most = 1500;
  const auto set = MakeLearningSet(learn, quiet);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->n(), 1500u);
  // An answer of the shard's nearest alone: it counts for one of each query's neighbors.
  double here = 0, first = 0, told = 0;
  for (std::uint64_t q = 0; q < 1500; ++q) {
    const auto in_shard = std::count_if(all.Ids(q).begin(), all.Ids(q).end(),
                                        [](std::uint64_t label) { return label % 4 == 0; });
    here += static_cast<double>(in_shard);
    first += in_shard > 0 ? 1 : 0;
    Answer answer, nothing;
    answer.nearest = {{.label = set->truth.Ids(q)[0], .distance = set->truth.Distances(q)[0]}};
    told += set->RecallOf(q, 10, answer) / 1500;
    EXPECT_GE(set->in_shard[q], 1u);
    EXPECT_EQ(set->RecallOf(q, 10, nothing), 0);
  }
  EXPECT_NEAR(told, first / here, 0.01);
  learn.groundtruth = folder_ / "shard.gt";
  const GroundTruth own = *ExactSearch(*IndexFile::Open(build_.out), queries, 10, 2, quiet);
  ASSERT_TRUE(WriteGroundTruth(learn.groundtruth, own).ok());
  const absl::Status refused = MakeLearningSet(learn, quiet).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("neighbors in all 4 shards"));

  options_.index = build_.out;
  options_.targets = {{.recall = 0.9}};
  options_.of_shards = 4;
  const auto report = Run();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->of_k[0].entry.of_shards, 4u);
  const IndexInfo info = IndexFile::Open(build_.out)->info();
  EXPECT_EQ(ReadTunedTable(build_.out, info.content_hash, info.n)->entries.back().of_shards, 4u);
}

/// Generated queries of every type can be searched for.
TEST(MakeLearningSet, LeavesOutVectorsOfEveryType) {
  Progress quiet(Progress::Show::kNever);
  for (const DType dtype : {DType::kF32, DType::kU8, DType::kI8, DType::kF16}) {
    for (const Metric metric : {Metric::kL2, Metric::kCosine}) {
      const SampleFolder folder;
      const BuildOptions build = SmallBuild(folder, dtype, metric, 400);
      MustBuild(build);
      LearningOptions learn;
      learn.index = build.out;
      learn.most = 50;
      const auto set = MakeLearningSet(learn, quiet);
      ASSERT_TRUE(set.ok()) << set.status();
      ASSERT_EQ(set->left_out.size(), 50u);
      for (std::uint32_t i = 0; i < 50; ++i) {
        const auto ids = set->truth.Ids(i);
        EXPECT_EQ(
            std::count(ids.begin(), ids.end(), IndexFile::Open(build.out)->Label(set->left_out[i])),
            0);
      }
      const auto index = *Index::Open(build.out);
      const auto counted =
          CountingRuns(index, *set, 1, nullptr).Run(index->Resolve({})->params, set->n());
      ASSERT_TRUE(counted.ok()) << counted.status();
      EXPECT_GT(counted->recall, 0.8);
      EXPECT_GT(counted->counters.distances_slow + counted->counters.distances_fast, 0u);
    }
  }
}

}  // namespace
}  // namespace hmann
