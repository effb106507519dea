// Sweeps of indexes that stand: files on several tiers, and one on a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "eval/disk_sweep.h"
#include "eval/own_contestants.h"
#include "eval/results.h"
#include "eval/sweep.h"
#include "server/testing/fixture.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const Json kSettings = {{{"walk", "best-first"}, {"ef_l1", 8}, {"ef_l0", 12}},
                        {{"walk", "best-first"}, {"ef_l1", 8}, {"ef_l0", 80}}};

class Finished : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "finished_test.", ::getpid());
    options_.shape = {10000, 128, DType::kU8};
    options_.groundtruth = "datasets/sample/query.gt100";
    options_.job.queries = "datasets/sample/query.u8bin";
    options_.job.query_rows = 50;
    options_.job.folder = folder_;
    options_.job.run_timeout = std::chrono::minutes(2);
    options_.rounds = 1;
    options_.targets = {0.9};
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Add(const std::string& name, const Json& build) {
    absl::StatusOr<ContestantSpec> spec = FinishedContestant(name, build);
    ASSERT_TRUE(spec.ok()) << spec.status();
    spec->settings = kSettings;
    options_.contestants.push_back(*std::move(spec));
  }
  void AddServer(const Served& served) {
    Add("served", {{"server", served.server->address()}, {"index", "sift"}});
  }

  absl::StatusOr<SweepResult> Run() {
    Progress progress(Progress::Show::kNever);
    return RunSweep(options_, progress, [](const std::string&) {});
  }

  std::string folder_;
  SweepOptions options_;
};

TEST_F(Finished, OnEveryTierAndThroughAServerTheAnswersAreTheSame) {
  const Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  Add("mapped", {{"index", SampleIndex()}, {"slow", "mapped"}});
  Add("nvme", {{"index", SampleIndex()}, {"slow", "nvme"}});
  AddServer(served);
  options_.shapes = AllShapes({1, 2}, {1, 4});
  const absl::StatusOr<SweepResult> result = Run();
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->runs.size(), 3u * 2 * 2);
  std::set<std::string> names;
  for (const ContestantRuns& runs : result->runs) {
    SCOPED_TRACE(runs.name);
    names.insert(runs.name);
    ASSERT_EQ(runs.settings.size(), 2u);
    for (std::size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(runs.settings[s].recall, result->runs[0].settings[s].recall);
      EXPECT_GT(runs.settings[s].observed.at("p99_us").at(0), 0);
      EXPECT_EQ(runs.settings[s].counters["distances"],
                result->runs[0].settings[s].counters["distances"]);
    }
  }
  EXPECT_TRUE(names.contains("served, 2 threads, 4 in flight"));
  const Json figures = ToJson(*result);
  EXPECT_EQ(figures["data"]["n"], 10000);
  EXPECT_TRUE(figures["data"]["base"].is_null());
  EXPECT_EQ(figures["work"].size(), 3u) << "shapes take the same work";
  for (const Json& contestant : figures["contestants"]) {
    EXPECT_TRUE(contestant["build_seconds"].is_null());
    EXPECT_GE(contestant["targets"][0]["p99_us"], contestant["targets"][0]["mean_us"]);
  }
}

TEST_F(Finished, WithoutShapesOneThreadSearchesAndNobodyAsksForLatencies) {
  Add("mapped", {{"index", SampleIndex()}});
  const absl::StatusOr<SweepResult> result = Run();
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->runs.size(), 1u);
  EXPECT_TRUE(result->runs[0].settings[0].observed.empty());
  EXPECT_TRUE(ToJson(*result)["contestants"][0]["targets"][0]["mean_us"].is_null());
}

TEST_F(Finished, ABaseThatIsGoneOrOfOtherRowsIsNamed) {
  Add("mapped", {{"index", SampleIndex()}});
  options_.groundtruth.clear();
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("base: expected a file"));
  options_.job.base = folder_ + "/gone.u8bin";
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("gone.u8bin"));
  options_.job.base = "datasets/sample/base.u8bin";
  options_.job.rows = 5000;
  EXPECT_THAT(std::string(Run().status().message()),
              AllOf(HasSubstr("expected 10000 rows"), HasSubstr("found 5000")));
}

TEST_F(Finished, AnIndexThatIsGoneOrOfOtherVectorsIsNamed) {
  Add("gone", {{"index", folder_ + "/gone.hmann"}});
  EXPECT_THAT(std::string(Run().status().message()),
              AllOf(HasSubstr("contestant gone"), HasSubstr("gone.hmann")));
  options_.contestants.clear();
  Add("mapped", {{"index", SampleIndex()}, {"promote", 0.2}});
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("setting 'promote' is unknown"));
  EXPECT_THAT(std::string(DiskContestants(folder_ + "/gone.hmann").status().message()),
              HasSubstr("gone.hmann"));
}

TEST_F(Finished, AServerThatGoesAwayEndsTheSweepWithItsName) {
  auto served = std::make_unique<Served>(LoopbackOptions({{"sift", SampleIndex()}}));
  AddServer(*served);
  options_.started = [&](std::size_t, pid_t) {
    served.reset();
    return absl::OkStatus();
  };
  const absl::Status status = Run().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("contestant served"));
  EXPECT_TRUE(fs::exists(folder_ + "/results.jsonl.part"));
  EXPECT_FALSE(fs::exists(folder_ + "/results.jsonl"));
}

}  // namespace
}  // namespace hmann
