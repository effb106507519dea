// A whole small sweep over the sample that ships: real contestants, real figures, the
// files that it leaves.
#include "eval/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "eval/own_contestants.h"
#include "eval/report/pages.h"
#include "eval/results.h"
#include "index/base/file.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Sweep : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "sweep_test.", ::getpid());
    options_.job.base = "datasets/sample/base.u8bin";
    options_.job.queries = "datasets/sample/query.u8bin";
    options_.groundtruth = "datasets/sample/query.gt100";
    options_.job.folder = folder_;
    options_.job.work = folder_ + "/work";
    options_.job.threads = 2;
    options_.rounds = 2;
    options_.targets = {0.9, 0.99};
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Add(const std::string& name, Json settings, const Json& build = Json::object()) {
    absl::StatusOr<ContestantSpec> spec = OwnContestant(name, build);
    ASSERT_TRUE(spec.ok()) << spec.status();
    spec->settings = std::move(settings);
    options_.contestants.push_back(*std::move(spec));
  }

  absl::StatusOr<SweepResult> Run() {
    Progress progress(Progress::Show::kNever);
    return RunSweep(options_, progress, [](const std::string&) {});
  }

  std::vector<Json> Lines() {
    std::vector<Json> lines;
    std::ifstream in(folder_ + "/results.jsonl");
    for (std::string line; std::getline(in, line);)
      lines.push_back(Json::parse(line, nullptr, false));
    return lines;
  }

  std::string folder_;
  SweepOptions options_;
};

const Json kEfs = {{{"ef", 10}}, {{"ef", 40}}, {{"ef", 200}}};
const Json kPools = {{{"walk", "best-first"}, {"ef_l1", 8}, {"ef_l0", 10}},
                     {{"walk", "best-first"}, {"ef_l1", 8}, {"ef_l0", 200}},
                     {{"walk", "multi-start"}, {"ef_l1", 40}, {"ef_l0", 1}}};

/// What a query took, of hmann's three contestants and hnswlib's two.
void ExpectWork(const Json& figures) {
  // Two walks of each of three, and hnswlib's two, whose graphs differ as two threads
  // take turns.
  ASSERT_EQ(figures["work"].size(), 3u * 2 + 2);
  std::map<std::string, Json> work;
  for (const Json& row : figures["work"])
    work[row["contestant"].get<std::string>() + " " + row["walk"].get<std::string>()] = row;
  for (std::size_t target = 0; target < 2; ++target) {
    const double distances = work["hnswlib "]["distances"][target].get<double>();
    EXPECT_NEAR(work["hnswlib-u8 "]["distances"][target].get<double>() / distances, 1, 0.1);
  }
  EXPECT_GT(work["hnswlib "]["distances"][1], work["hnswlib "]["distances"][0]);
  EXPECT_FALSE(work["hnswlib "].contains("slow_reads"));
  EXPECT_GT(work["hmann best-first"]["slow_reads"][1], 0);
}

/// Against a memory of a line every 10 ns: of who counts lines and does not wait.
void ExpectLimits(const Json& figures) {
  for (const Json& contestant : figures["contestants"]) {
    const bool counts = contestant["name"].get<std::string>().starts_with("hmann");
    for (const Json& at : contestant["targets"]) {
      SCOPED_TRACE(contestant["name"].dump());
      ASSERT_EQ(at["lines"].is_null(), !counts);
      ASSERT_EQ(at["of_limit"].is_null(), !counts);
      if (!counts) continue;
      EXPECT_GT(at["lines"].get<double>(), 100);
      EXPECT_NEAR(at["of_limit"].get<double>(),
                  at["qps"].get<double>() * at["lines"].get<double>() * 10e-9, 1e-9);
    }
  }
}

TEST_F(Sweep, AllContestantsOnTheSample) {
  options_.memory.resize(2);
  options_.memory[0].ns_per_line.median = 90;
  options_.memory[1].ns_per_line.median = 10;
  Add("hmann", kPools, {{"promote", 0.16}});
  Add("hmann-aa", kPools, {{"promote", 0.16}});
  Add("hnswlib", kEfs);
  Add("hnswlib-u8", kEfs);
  Add("faiss", kEfs);
  Add("faiss-sq8",
      {{{"ef", 10}, {"refine", 2}}, {{"ef", 40}, {"refine", 2}}, {{"ef", 200}, {"refine", 2}}});
  Add("faiss-ivfpq", {{{"nprobe", 4}, {"refine", 4}},
                      {{"nprobe", 16}, {"refine", 8}},
                      {{"nprobe", 128}, {"refine", 16}}});
  Add("hmann-batch", kPools, {{"promote", 0.16}});
  const absl::StatusOr<SweepResult> result = Run();
  ASSERT_TRUE(result.ok()) << result.status();
  for (const std::size_t again : {1, 7})
    EXPECT_TRUE(result->runs[again].ready.cached) << "hmann's contestants share one index";
  std::map<std::string, double> best;
  for (const ContestantRuns& runs : result->runs) {
    for (const SettingRuns& setting : runs.settings) {
      ASSERT_EQ(setting.recall.size(), 2u);
      EXPECT_EQ(setting.recall[0], setting.recall[1])
          << runs.name << ": equal settings, equal answers";
      best[runs.name] = std::max(best[runs.name], setting.recall[0]);
    }
    EXPECT_GT(best[runs.name], 0.99) << runs.name;
  }
  for (std::size_t s = 0; s < kPools.size(); ++s) {
    for (const std::size_t again : {1, 7})
      EXPECT_EQ(result->runs[0].settings[s].recall[0], result->runs[again].settings[s].recall[0]);
    EXPECT_GT(result->runs[0].settings[s].counters["slow_reads"].get<double>(), 0);
    for (const std::size_t again : {1, 7})
      EXPECT_EQ(result->runs[0].settings[s].counters, result->runs[again].settings[s].counters);
  }

  const Json figures = ToJson(*result);
  ASSERT_EQ(figures["contestants"].size(), 8u);
  EXPECT_EQ(figures["reference"], "hnswlib");
  EXPECT_NEAR(figures["contestants"][2]["targets"][1]["ratio"].get<double>(), 1, 1e-9);
  EXPECT_EQ(figures["noise"].size(), 2u);
  ExpectWork(figures);
  ExpectLimits(figures);
  std::map<std::string, int> kinds;
  for (const Json& line : Lines()) ++kinds[line.value("kind", "")];
  EXPECT_THAT(kinds, ElementsAre(std::pair<const std::string, int>("contestant", 8),
                                 std::pair<const std::string, int>("count", 12),
                                 std::pair<const std::string, int>("run", 8 * 3 * 2),
                                 std::pair<const std::string, int>("sweep", 1)));
  for (const char* key : {"cpu", "simd", "governor", "huge_pages", "kernel"})
    EXPECT_TRUE(Lines()[0]["environment"].contains(key)) << key;

  std::ostringstream table;
  PrintSweepTable(figures, table);
  EXPECT_THAT(table.str(), HasSubstr("hnswlib 0.6.2, float"));
  EXPECT_THAT(table.str(), HasSubstr("noise: hmann beside itself at 0.99"));
  EXPECT_THAT(table.str(), HasSubstr("DRAM gives a thread a line at random every 10.0 ns"));
}

TEST_F(Sweep, TheReportHoldsTheFiguresAndNothingFromOutside) {
  Add("hnswlib-u8", kEfs);
  options_.rounds = 1;
  const absl::StatusOr<SweepResult> result = Run();
  ASSERT_TRUE(result.ok()) << result.status();
  Json figures = ToJson(*result);
  EXPECT_TRUE(figures["reference"].is_null()) << "hnswlib does not take part";
  figures["title"] = "</script><script>alert(1)</script>";
  ASSERT_TRUE(WriteReport(figures, SweepPage(), folder_ + "/report.html").ok());
  const std::string page = *ReadTextFile(folder_ + "/report.html", 10'000'000);
  const std::string mark = "<script type=\"application/json\" id=\"results\">";
  const std::size_t begin = page.find(mark) + mark.size();
  ASSERT_GT(begin, mark.size());
  const Json inside =
      Json::parse(page.substr(begin, page.find("</script>", begin) - begin), nullptr, false);
  EXPECT_EQ(inside, figures) << "a title that looks like markup stays data";
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST_F(Sweep, GroundTruthIsComputedOnceAndIsTheSame) {
  Add("hnswlib-u8", kEfs);
  options_.rounds = 1;
  const absl::StatusOr<SweepResult> given = Run();
  ASSERT_TRUE(given.ok()) << given.status();
  options_.groundtruth.clear();
  const absl::StatusOr<SweepResult> computed = Run();
  ASSERT_TRUE(computed.ok()) << computed.status();
  for (std::size_t s = 0; s < kEfs.size(); ++s) {
    EXPECT_EQ(given->runs[0].settings[s].recall, computed->runs[0].settings[s].recall);
  }
  const auto kept = [this] {
    std::vector<fs::file_time_type> times;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().filename().string().starts_with("groundtruth-"))
        times.push_back(entry.last_write_time());
    }
    return times;
  };
  const auto first = kept();
  ASSERT_EQ(first.size(), 1u);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(kept(), first);
}

TEST_F(Sweep, ARivalThatDiesLeavesTheRunsSoFar) {
  Add("hnswlib-u8", kEfs);
  ContestantSpec dying;
  dying.name = "dying";
  dying.command = {
      "/bin/sh", "-c",
      R"(echo '{"ready": "d", "build_seconds": 1, "index_bytes": 1, "settings": [{"a": 1}]}'; read line; exit 9)"};
  options_.contestants.push_back(dying);
  const absl::StatusOr<SweepResult> result = Run();
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("contestant dying: it ended with exit code 9"));
  EXPECT_FALSE(fs::exists(folder_ + "/results.jsonl"));
  EXPECT_TRUE(fs::exists(folder_ + "/results.jsonl.part"));
}

TEST_F(Sweep, WhatMakesNoSenseIsRefused) {
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("at least one contestant"));
  Add("hnswlib-u8", kEfs);
  Add("hnswlib-u8", kEfs);
  EXPECT_THAT(std::string(Run().status().message()),
              HasSubstr("two contestants are called 'hnswlib-u8'"));
  options_.contestants.pop_back();
  options_.targets = {1.5};
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("targets"));
  options_.targets = {0.9};
  options_.job.k = 101;
  EXPECT_FALSE(Run().ok()) << "the ground truth has 100 neighbours";
  EXPECT_FALSE(OwnContestant("nobody", {}).ok());
}

}  // namespace
}  // namespace hmann
