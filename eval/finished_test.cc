// Sweeps of finished indexes: files on several tiers, and one on a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "eval/benchmark.h"
#include "eval/builtin_systems.h"
#include "eval/results.h"
#include "server/testing/fixture.h"

namespace hmann::eval {
namespace {

using server::LoopbackOptions;
using server::SampleIndex;
using server::Served;

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const Json kSettings = {{{"mode", "graph"}, {"ef_l1", 8}, {"ef_l0", 12}},
                        {{"mode", "graph"}, {"ef_l1", 8}, {"ef_l0", 80}}};

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
    absl::StatusOr<SystemSpec> spec = FinishedSystem(name, build);
    ASSERT_TRUE(spec.ok()) << spec.status();
    spec->settings = kSettings;
    options_.systems.push_back(*std::move(spec));
  }
  void AddServer(const Served& served) {
    Add("served", {{"server", served.server->address()}, {"index", "sift"}});
  }

  absl::StatusOr<std::vector<Json>> Run(const Say& say = [](const std::string&) {}) {
    Progress progress(Progress::Show::kNever);
    return RunBenchmark(options_, progress, say);
  }

  std::string folder_;
  Benchmark options_;
};

TEST_F(Finished, OnEveryTierAndThroughAServerTheAnswersAreTheSame) {
  const Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  Add("mapped", {{"index", SampleIndex()}, {"slow", "mapped"}});
  Add("nvme", {{"index", SampleIndex()}, {"slow", "nvme"}});
  AddServer(served);
  options_.shapes = AllShapes({1, 2}, {1, 4});
  const absl::StatusOr<std::vector<Json>> lines = Run();
  ASSERT_TRUE(lines.ok()) << lines.status();
  const std::vector<Curve> curves = CurvesOf(*lines);
  ASSERT_EQ(curves.size(), 3u * 2 * 2);
  std::set<std::string> names;
  for (const Curve& curve : curves) {
    SCOPED_TRACE(curve.label);
    names.insert(curve.label);
    ASSERT_EQ(curve.settings.size(), 2u);
    for (std::size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(curve.settings[s].recall, curves[0].settings[s].recall);
      EXPECT_GT(curve.settings[s].observed.at("p99_us").at(0), 0);
      EXPECT_EQ(curve.settings[s].counters["distances"],
                curves[0].settings[s].counters["distances"]);
    }
  }
  EXPECT_TRUE(names.contains("served, 2 threads, 4 in flight"));
  const Json figures = FiguresOf(*lines);
  EXPECT_EQ(figures["data"]["n"], 10000);
  EXPECT_TRUE(figures["data"]["base"].is_null());
  std::set<std::string> places;
  for (const Json& system : figures["systems"]) {
    places.insert(system["place"].dump());
    EXPECT_TRUE(system["build_seconds"].is_null());
    EXPECT_GE(system["targets"][0]["p99_us"], system["targets"][0]["mean_us"]);
  }
  EXPECT_EQ(places.size(), 3u) << "two tiers and a server";
  for (const Json& line : *lines) {
    if (line["kind"] == "run") {
      EXPECT_TRUE(places.contains(line["place"].dump())) << line;
    }
  }
}

TEST_F(Finished, WithoutShapesOneThreadSearchesAndNobodyAsksForLatencies) {
  Add("mapped", {{"index", SampleIndex()}});
  const absl::StatusOr<std::vector<Json>> lines = Run();
  ASSERT_TRUE(lines.ok()) << lines.status();
  const std::vector<Curve> curves = CurvesOf(*lines);
  ASSERT_EQ(curves.size(), 1u);
  EXPECT_EQ(curves[0].label, "mapped");
  EXPECT_TRUE(curves[0].settings[0].observed.empty());
  EXPECT_TRUE(FiguresOf(*lines)["systems"][0]["targets"][0]["mean_us"].is_null());
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
              AllOf(HasSubstr("system gone"), HasSubstr("gone.hmann")));
  options_.systems.clear();
  Add("mapped", {{"index", SampleIndex()}, {"promote", 0.2}});
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("setting 'promote' is unknown"));
}

TEST_F(Finished, AServerThatGoesAwayEndsTheSweepWithItsName) {
  auto served = std::make_unique<Served>(LoopbackOptions({{"sift", SampleIndex()}}));
  AddServer(*served);
  // The index is ready by then.
  const absl::Status status = Run([&](const std::string& line) {
                                if (line.ends_with(" settings")) served.reset();
                              }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("system served"));
  EXPECT_TRUE(fs::exists(folder_ + "/results.jsonl.part"));
  EXPECT_FALSE(fs::exists(folder_ + "/results.jsonl"));
}

}  // namespace
}  // namespace hmann::eval
