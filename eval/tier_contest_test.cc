// Two memories on the sample that ships, through the real programs: who takes part, what
// is compared with what, and the figures.
#include "eval/tier_contest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "eval/report/pages.h"
#include "eval/results.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

PlanShape Sample() {
  PlanShape shape;
  shape.n = 10000;
  shape.dim = 128;
  return shape;
}

const TierRow& RowNamed(const TierPlan& plan, const std::string& name) {
  const auto found = std::find_if(plan.rows.begin(), plan.rows.end(),
                                  [&](const TierRow& row) { return row.name == name; });
  EXPECT_NE(found, plan.rows.end()) << name;
  return *found;
}

TEST(TierPlan, EveryRowSaysWhatItIsAndPointsAtRowsThatAreThere) {
  TierContest contest;
  contest.rival_graph = "hnsw.index";
  const absl::StatusOr<TierPlan> plan = PlanTiers(contest, Sample());
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::set<std::string> names, programs;
  for (const TierRow& row : plan->rows) EXPECT_TRUE(names.insert(row.name).second) << row.name;
  for (const ContestantSpec& spec : plan->programs) programs.insert(spec.name);
  EXPECT_THAT(plan->emulated, HasSubstr("lat=300ns"));
  for (const TierRow& row : plan->rows) {
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(programs.contains(row.program));
    if (row.kind == "measured") {
      EXPECT_THAT(row.name, HasSubstr("all DRAM"));
      continue;
    }
    EXPECT_EQ(RowNamed(*plan, row.rival).match["in_flight"], row.match["in_flight"]);
    EXPECT_THAT(row.rival, HasSubstr("HNSW all slow"));
    if (absl::StrContains(row.name, "hnswlib's graph")) continue;
    EXPECT_THAT(row.name, HasSubstr("emulated +"));
    EXPECT_EQ(row.kind == "model", absl::StrContains(row.name, "model"));
    EXPECT_EQ(RowNamed(*plan, row.all_dram).kind, "measured");
    EXPECT_EQ(RowNamed(*plan, row.all_dram).match["in_flight"], row.match["in_flight"]);
    if (!row.aside) {
      EXPECT_THAT(RowNamed(*plan, row.without_latency).name, HasSubstr("emulated +0 ns"));
    }
  }
  EXPECT_TRUE(names.contains(plan->reference));
  EXPECT_TRUE(names.contains(plan->own));
  EXPECT_TRUE(names.contains(plan->own_again));
}

TEST(TierPlan, EveryRowHasARunAtEachWidthAndEveryRunBelongsToARow) {
  TierContest contest;
  contest.prefetch = {"ahead", "off", "round", "helper"};
  contest.widths = {10, 50};
  contest.rival_graph = "hnsw.index";
  const absl::StatusOr<TierPlan> plan = PlanTiers(contest, Sample());
  ASSERT_TRUE(plan.ok()) << plan.status();
  SweepResult ran;
  std::size_t settings = 0, in_rows = 0;
  for (const ContestantSpec& spec : plan->programs) {
    ContestantRuns& program = ran.runs.emplace_back();
    program.name = spec.name;
    for (const Json& setting : spec.settings) {
      SettingRuns runs;
      runs.setting = setting;
      program.settings.push_back(runs);
      ++settings;
    }
  }
  for (const ContestantRuns& row : AsTierRows(ran, *plan).runs) {
    EXPECT_EQ(row.settings.size(), 2u) << row.name;
    in_rows += row.settings.size();
  }
  EXPECT_EQ(in_rows, settings);
}

TEST(TierPlan, WhatMakesNoSenseIsRefused) {
  TierContest contest;
  contest.emulated = "lat=0ns";
  EXPECT_THAT(std::string(PlanTiers(contest, Sample()).status().message()),
              HasSubstr("latency above 0"));
  contest.emulated = "slowly";
  EXPECT_FALSE(PlanTiers(contest, Sample()).ok());
  contest = {};
  contest.widths.clear();
  EXPECT_THAT(std::string(PlanTiers(contest, Sample()).status().message()), HasSubstr("widths"));
  contest = {};
  contest.fast_bytes = {};
  EXPECT_THAT(std::string(PlanTiers(contest, Sample()).status().message()),
              HasSubstr("fast bytes"));
  contest.fast_bytes = {0.01};
  EXPECT_THAT(std::string(PlanTiers(contest, Sample()).status().message()),
              HasSubstr("0.01 bytes"));
  contest = {};
  contest.in_flight = {0};
  EXPECT_THAT(std::string(PlanTiers(contest, Sample()).status().message()), HasSubstr("in flight"));
  contest = {};
  contest.prefetch = {"off"};
  EXPECT_THAT(std::string(PlanTiers(contest, Sample()).status().message()), HasSubstr("ahead"));
}

class TierSweep : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "tier_contest_test.", ::getpid());
    options_.job.base = "datasets/sample/base.u8bin";
    options_.job.queries = "datasets/sample/query.u8bin";
    options_.job.query_rows = 100;
    options_.groundtruth = "datasets/sample/query.gt100";
    options_.job.folder = folder_;
    options_.job.work = folder_ + "/work";
    options_.job.threads = 2;
    options_.rounds = 1;
    options_.targets = {0.9};
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string folder_;
  SweepOptions options_;
};

const Json& RowOf(const Json& figures, const std::string& start) {
  for (const Json& row : figures["tiers"]["rows"]) {
    if (absl::StartsWith(row["name"].get<std::string>(), start)) return row;
  }
  static const Json none;
  ADD_FAILURE() << "no row " << start;
  return none;
}

/// The same search wherever its bytes lie.
void CheckAnswers(const SweepResult& rows) {
  std::map<std::string, double> recall_of_walk;
  for (const ContestantRuns& row : rows.runs) {
    const std::string same =
        row.settings[1].setting.contains("walk")
            ? absl::StrCat(row.settings[1].setting["walk"].get<std::string>(),
                           absl::StrContains(row.name, "hnswlib's graph") ? ", theirs" : "")
            : "HNSW";
    const auto [found, is_new] = recall_of_walk.emplace(same, row.settings[1].recall[0]);
    EXPECT_EQ(found->second, row.settings[1].recall[0]) << row.name;
    EXPECT_GT(row.settings[1].recall[0], 0.9) << row.name;
  }
}

void CheckFastBytes(const Json& figures) {
  for (const char* row :
       {"hmann best-first, 110 B, emulated", "hmann quantised, 110 B, 4 in flight",
        "Memory Mode, 110 B, model", "first-touch in query order, 110 B, model"}) {
    EXPECT_NEAR(RowOf(figures, row)["fast_bytes"].get<double>(), 110 * 10000, 0.1 * 110 * 10000)
        << row;
  }
  EXPECT_EQ(RowOf(figures, "HNSW all slow, emulated")["fast_bytes"], 0);
}

TEST_F(TierSweep, FiguresOfTheSample) {
  TierContest contest;
  contest.emulated = "lat=2us";  // far above any noise of this machine
  contest.widths = {10, 60};
  contest.fast_bytes = {110};
  const absl::StatusOr<std::string> graph = BuildRivalGraph(options_.job);
  ASSERT_TRUE(graph.ok()) << graph.status();
  contest.rival_graph = *graph;
  const absl::StatusOr<TierPlan> plan = PlanTiers(contest, Sample());
  ASSERT_TRUE(plan.ok()) << plan.status();
  options_.contestants = plan->programs;
  options_.reference = plan->reference;
  Progress progress(Progress::Show::kNever);
  const absl::StatusOr<SweepResult> result =
      RunSweep(options_, progress, [](const std::string&) {});
  ASSERT_TRUE(result.ok()) << result.status();
  for (const ContestantRuns& program : result->runs) {
    const bool first =
        program.name == "hmann, 110 B in DRAM" || program.name == "hmann, 110 B, hnswlib's graph";
    EXPECT_EQ(program.ready.cached, !first) << program.name << ": programs share index files";
  }

  CheckAnswers(AsTierRows(*result, *plan));
  const Json figures = TierFigures(*result, *plan);
  const auto reads = [&](const std::string& start) {
    return RowOf(figures, start)["targets"][0]["slow_reads"].get<double>();
  };
  EXPECT_GT(reads("HNSW all slow, emulated"), reads("HNSW fast upper layers, emulated"));
  EXPECT_GT(reads("HNSW all slow, emulated"), reads("first-touch in load order, 110 B, model"));
  EXPECT_GT(reads("HNSW all slow, emulated"), reads("Memory Mode, 110 B, model"));
  EXPECT_EQ(reads("HNSW all slow, emulated"), reads("HNSW all slow, 4 in flight"))
      << "queries in flight change no answer";
  EXPECT_LT(reads("HNSW, all DRAM"), 1e-6);
  EXPECT_LT(reads("hmann best-first, 110 B, emulated"), reads("HNSW all slow, emulated"));
  EXPECT_LT(reads("hmann quantised, 110 B, hnswlib's graph"), reads("HNSW all slow, emulated"));
  EXPECT_EQ(reads("hmann best-first, 110 B, emulated"),
            reads("hmann best-first, no prefetch, 110 B, emulated"))
      << "fetching ahead changes no answer";
  const Json& slow = RowOf(figures, "HNSW all slow, emulated");
  EXPECT_NEAR(slow["targets"][0]["ratio"].get<double>(), 1, 1e-9);
  EXPECT_LT(slow["targets"][0]["of_all_dram"].get<double>(), 0.5) << "2 us a touch show";
  EXPECT_GT(slow["targets"][0]["without_latency"].get<double>(),
            slow["targets"][0]["qps"].get<double>());
  CheckFastBytes(figures);
  EXPECT_EQ(figures["noise"].size(), 1u);

  std::ostringstream table;
  PrintTierTables(figures, table);
  EXPECT_THAT(table.str(), HasSubstr("at recall 0.9"));
  EXPECT_THAT(table.str(),
              HasSubstr("Memory Mode, fully associative, 110 B, model, emulated +2000 ns"));
  EXPECT_TRUE(WriteReport(figures, SweepPage(), folder_ + "/report.html").ok());
}

}  // namespace
}  // namespace hmann
