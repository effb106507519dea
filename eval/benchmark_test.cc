// Runs a whole small benchmark over the shipped sample: real systems, real figures, and
// the files that it leaves.
#include "eval/benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "eval/builtin_systems.h"
#include "eval/interleaved_runs.h"
#include "eval/report/pages.h"
#include "eval/results.h"
#include "index/base/file.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Sweep : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "benchmark_test.", ::getpid());
    options_.job.base = "datasets/sample/base.u8bin";
    options_.job.queries = "datasets/sample/query.u8bin";
    options_.groundtruth = "datasets/sample/query.gt100";
    options_.job.folder = folder_;
    options_.job.work = folder_ + "/work";
    options_.job.threads = 2;
    options_.rounds = 2;
    options_.targets = {0.9, 0.99};
    options_.gathers = {{{"loads", 1}, {"ns_a_line", 90}}, {{"loads", 32}, {"ns_a_line", 10}}};
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Add(const std::string& name, Json settings, const Json& build = Json::object()) {
    absl::StatusOr<SystemSpec> spec = BuiltinSystem(name, build);
    ASSERT_TRUE(spec.ok()) << spec.status();
    spec->settings = std::move(settings);
    options_.systems.push_back(*std::move(spec));
  }

  absl::StatusOr<std::vector<Json>> Run() {
    Progress progress(Progress::Show::kNever);
    return RunBenchmark(options_, progress, [](const std::string&) {});
  }

  std::string folder_;
  Benchmark options_;
};

const Json kEfs = {{{"ef", 10}}, {{"ef", 40}}, {{"ef", 200}}};
const Json kPools = {{{"mode", "graph"}, {"ef_l1", 8}, {"ef_l0", 10}},
                     {{"mode", "graph"}, {"ef_l1", 8}, {"ef_l0", 200}},
                     {{"mode", "multi-start"}, {"ef_l1", 40}, {"ef_l0", 1}}};

const Json& Named(const Json& figures, const std::string& name) {
  for (const Json& row : figures["systems"])
    if (row["name"] == name) return row;
  static const Json none;
  ADD_FAILURE() << "no row " << name;
  return none;
}

/// A query's work in hmann's modes and in the two of hnswlib, at equal settings: their
/// graphs differ, because two threads take turns, so that one may reach a target with the
/// setting below.
void ExpectWork(const std::vector<Json>& lines, const Json& figures) {
  const auto at = [&](const char* name, std::size_t target, const char* what) {
    return Named(figures, name)["targets"][target][what];
  };
  EXPECT_TRUE(Named(figures, "hmann multi-start")["aside"].get<bool>());
  std::map<std::string, double> distances;
  for (const Json& line : lines) {
    if (line["kind"] == "count")
      distances[line["system"].get<std::string>() + line["setting"].dump()] =
          line["counters"]["distances"];
  }
  for (const Json& ef : kEfs)
    EXPECT_NEAR(distances["hnswlib-u8" + ef.dump()] / distances["hnswlib" + ef.dump()], 1, 0.1);
  EXPECT_GT(at("hnswlib", 1, "distances"), at("hnswlib", 0, "distances"));
  EXPECT_TRUE(at("hnswlib", 1, "node_reads").is_null());
  EXPECT_GT(at("hmann graph", 1, "node_reads"), 0);
}

/// Compares systems that count lines and do not wait with a memory of one line per 10 ns.
void ExpectLimits(const Json& figures) {
  for (const Json& system : figures["systems"]) {
    const bool counts = system["name"].get<std::string>().starts_with("hmann");
    for (const Json& at : system["targets"]) {
      SCOPED_TRACE(system["name"].dump());
      if (at["qps"].is_null()) continue;  // multi-start has one setting
      ASSERT_EQ(at["lines"].is_null(), !counts);
      ASSERT_EQ(at["of_limit"].is_null(), !counts);
      if (!counts) continue;
      EXPECT_GT(at["lines"].get<double>(), 100);
      EXPECT_NEAR(at["of_limit"].get<double>(),
                  at["qps"].get<double>() * at["lines"].get<double>() * 10e-9, 1e-9);
    }
  }
}

/// Equal settings give equal answers.
void ExpectAnswers(const std::vector<Json>& lines) {
  std::map<std::string, double> best;
  std::map<std::string, Json> recall_of, counters_of;
  for (const Json& line : lines) {
    const std::string kind = line["kind"].get<std::string>();
    if (kind != "run" && kind != "count") continue;
    const auto name = line["system"].get<std::string>();
    const std::string key =
        absl::StrCat(name.starts_with("hmann") ? "hmann" : name, line["setting"].dump());
    if (kind == "count" && name.starts_with("hmann")) {
      const auto [found, is_new] = counters_of.emplace(key, line["counters"]);
      EXPECT_EQ(found->second, line["counters"]) << key;
      EXPECT_GT(line["counters"]["node_reads"], 0) << key;
    }
    const auto [found, is_new] = recall_of.emplace(key, line["recall"]);
    EXPECT_EQ(found->second, line["recall"]) << key;
    best[name] = std::max(best[name], line["recall"].get<double>());
  }
  ASSERT_EQ(best.size(), 8u);
  for (const auto& [name, recall] : best) EXPECT_GT(recall, 0.99) << name;
}

TEST_F(Sweep, AllContestantsOnTheSample) {
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
  const absl::StatusOr<std::vector<Json>> lines = Run();
  ASSERT_TRUE(lines.ok()) << lines.status();
  ExpectAnswers(*lines);

  const Json figures = FiguresOf(*lines);
  EXPECT_EQ(figures["version"], kResultsVersion);
  ASSERT_EQ(figures["systems"].size(), 8u + 3 * 2) << "hmann's three with two modes each";
  EXPECT_EQ(figures["reference"], "hnswlib-u8") << "of the baselines, the one of hmann's type";
  EXPECT_NEAR(Named(figures, "hnswlib-u8")["targets"][1]["ratio"].get<double>(), 1, 1e-9);
  for (const char* again : {"hmann-aa", "hmann-batch"})
    EXPECT_EQ(Named(figures, again)["cached"], true) << "hmann's systems share one index";
  ASSERT_EQ(figures["noise"].size(), 2u);
  EXPECT_EQ(figures["noise"][0]["system"], "hmann-aa");
  ExpectWork(*lines, figures);
  ExpectLimits(figures);
  std::map<std::string, int> kinds;
  for (const Json& line : *lines) ++kinds[line.value("kind", "")];
  const std::map<std::string, int> expected = {{"benchmark", 1}, {"dram", 1},  {"system", 8},
                                               {"count", 18},    {"round", 2}, {"run", 8 * 3 * 2}};
  EXPECT_EQ(kinds, expected);
  for (const char* key : {"cpu", "simd", "governor", "huge_pages", "kernel"})
    EXPECT_TRUE((*lines)[0]["environment"].contains(key)) << key;
  const absl::StatusOr<std::vector<Json>> read = ReadResults(folder_ + "/results.jsonl");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FiguresOf(*read), figures) << "the file holds all that is told";
  EXPECT_EQ(figures["quiet"]["runs"], 48);

  std::ostringstream table;
  PrintTables(figures, table);
  EXPECT_THAT(table.str(), HasSubstr("hnswlib 0.6.2, float"));
  EXPECT_THAT(table.str(), HasSubstr("noise: hmann-aa relative to itself at 0.99"));
  EXPECT_THAT(table.str(), HasSubstr("of limit"));
  EXPECT_THAT(table.str(), HasSubstr("hmann multi-start"));
  EXPECT_THAT(table.str(), HasSubstr("of the CPU, other virtual machines"));
}

TEST_F(Sweep, TheReportHoldsTheFiguresAndNothingFromOutside) {
  Add("hnswlib-u8", kEfs);
  options_.rounds = 1;
  options_.reference = "nobody";
  const absl::StatusOr<std::vector<Json>> result = Run();
  ASSERT_TRUE(result.ok()) << result.status();
  Json figures = FiguresOf(*result);
  EXPECT_TRUE(figures["reference"].is_null()) << "it does not take part";
  figures["title"] = "</script><script>alert(1)</script>";
  ASSERT_TRUE(WriteReport(figures, BenchmarkPage(), folder_ + "/report.html").ok());
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
  const absl::StatusOr<std::vector<Json>> given = Run();
  ASSERT_TRUE(given.ok()) << given.status();
  options_.groundtruth.clear();
  const absl::StatusOr<std::vector<Json>> computed = Run();
  ASSERT_TRUE(computed.ok()) << computed.status();
  for (std::size_t s = 0; s < kEfs.size(); ++s) {
    EXPECT_EQ(CurvesOf(*given)[0].settings[s].recall, CurvesOf(*computed)[0].settings[s].recall);
  }
  const auto kept = [this] {
    std::vector<fs::file_time_type> times;
    for (const auto& entry : fs::directory_iterator(options_.job.work)) {
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
  SystemSpec dying;
  dying.name = "dying";
  dying.command = {
      "/bin/sh", "-c",
      R"(echo '{"ready": "d", "build_seconds": 1, "index_bytes": 1, "settings": [{"a": 1}]}'; read line; exit 9)"};
  options_.systems.push_back(dying);
  const absl::StatusOr<std::vector<Json>> result = Run();
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("system dying: it ended with exit code 9"));
  EXPECT_FALSE(fs::exists(folder_ + "/results.jsonl"));
  EXPECT_TRUE(fs::exists(folder_ + "/results.jsonl.part"));
}

TEST_F(Sweep, WhatMakesNoSenseIsRefused) {
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("at least one system"));
  Add("hnswlib-u8", kEfs);
  Add("hnswlib-u8", kEfs);
  EXPECT_THAT(std::string(Run().status().message()),
              HasSubstr("two systems are called 'hnswlib-u8'"));
  options_.systems.pop_back();
  options_.targets = {1.5};
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("targets"));
  options_.targets = {0.9};
  options_.job.k = 101;
  EXPECT_FALSE(Run().ok()) << "the ground truth has 100 neighbors";
  EXPECT_FALSE(BuiltinSystem("nobody", {}).ok());
}

TEST(DisturbedRuns, OthersAndWaitingForTheCpuShow) {
  RunAnswer answer;
  answer.seconds = answer.cpu_seconds = 1;
  const OthersShare quiet, busy = {0, 0.5}, steal = {0.05, 0};
  EXPECT_FALSE(Disturbed(answer, quiet, 1, true));
  EXPECT_TRUE(Disturbed(answer, busy, 1, true));
  EXPECT_TRUE(Disturbed(answer, steal, 1, false));
  EXPECT_FALSE(Disturbed(answer, busy, 0.05, true)) << "ticks say nothing of so short a time";
  answer.seconds = 1.5;
  EXPECT_TRUE(Disturbed(answer, quiet, 0.05, true)) << "it waited for the CPU";
  EXPECT_FALSE(Disturbed(answer, quiet, 2, false)) << "it may wait for a disk";
}

/// A system of one setting whose run takes far longer than its CPU time.
TEST_F(Sweep, ADisturbedRunIsRunOnceMoreAndMarked) {
  SystemSpec waiting;
  waiting.name = "waiting";
  waiting.command = {"/bin/sh", "-c", R"(
    echo '{"ready": "w", "build_seconds": 1, "index_bytes": 1, "settings": [{"a": 1}]}'
    while read line; do
      case $line in *quit*) exit 0 ;; esac
      file=${line##*\"answers\":\"}; file=${file%%\"*}
      printf '\001\000\000\000\001\000\000\000\000\000\000\000' >"$file"
      echo run >>runs.log
      echo '{"seconds": 3, "cpu_seconds": 1}'
    done)"};
  waiting.command[2] = absl::StrCat("cd ", testing::TempDir(), "; ", waiting.command[2]);
  fs::remove(testing::TempDir() + "runs.log");
  options_.systems = {waiting};
  options_.job.query_rows = options_.job.k = 1;
  options_.job.folder = fs::absolute(folder_);
  options_.rounds = 2;
  const absl::StatusOr<std::vector<Json>> lines = Run();
  ASSERT_TRUE(lines.ok()) << lines.status();
  int marked = 0;
  for (const Json& line : *lines) marked += line.value("noisy", false) ? 1 : 0;
  EXPECT_EQ(marked, 2);
  const std::string runs = *ReadTextFile(testing::TempDir() + "runs.log", 1000);
  EXPECT_EQ(std::count(runs.begin(), runs.end(), '\n'), 1 + 2 * 2) << "a warm-up, each twice";
  const Json figures = FiguresOf(*lines);
  EXPECT_EQ(figures["systems"][0]["noisy"], 2);
  EXPECT_EQ(figures["quiet"]["noisy"], 2);
  EXPECT_FALSE(figures["systems"][0]["points"].empty()) << "all are noisy: all count";
  std::ostringstream table;
  PrintTables(figures, table);
  EXPECT_THAT(table.str(), HasSubstr("2 of 2 runs were disturbed"));
}

TEST_F(Sweep, LinesThatCannotBeReadAreNamed) {
  fs::create_directories(folder_);
  const std::string path = folder_ + "/results.jsonl";
  const auto error = [&](const std::string& content) {
    EXPECT_TRUE(WriteTextFile(path, content).ok());
    return std::string(ReadResults(path).status().message());
  };
  const Json head = HeadLine(options_, Json::object());
  EXPECT_EQ(error(head.dump() + "\n"), "");
  EXPECT_THAT(error(""), HasSubstr("line 1: expected an object of kind benchmark"));
  EXPECT_THAT(error("no json\n"), HasSubstr("line 1"));
  EXPECT_THAT(error("[1]\n"), HasSubstr("line 1"));
  EXPECT_THAT(error(R"({"kind":"sweep"})"), HasSubstr("line 1"));
  Json later = head;
  later["version"] = kResultsVersion + 1;
  EXPECT_THAT(error(later.dump()), HasSubstr("expected version 2, found 3"));
  for (const char* line :
       {R"({"kind":3})", R"({"system":"x"})", R"({"kind":"benchmark","version":1})", "{"})
    EXPECT_THAT(error(absl::StrCat(head.dump(), "\n", line)), HasSubstr("line 2")) << line;
  EXPECT_EQ(ReadResults(folder_ + "/gone").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hmann::eval
