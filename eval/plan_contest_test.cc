// Who takes part on the sample that ships, which run belongs to which curve, and what is
// divided by what. tests/plan_cli_test.cc runs it.
#include "eval/plan_contest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "index/tune/placement_choices.h"

namespace hmann {
namespace {

using testing::HasSubstr;

PlanContest Contest() {
  PlanContest contest;
  contest.shares = {0.4, 0.8};
  contest.profile = DefaultProfile();
  contest.widths = {20, 80};
  return contest;
}

ContestantJob Job() {
  ContestantJob job;
  job.base = "datasets/sample/base.u8bin";
  return job;
}

PlanLineup MustLineUp(const PlanContest& contest) {
  absl::StatusOr<PlanLineup> lineup = LineUpPlans(contest, Job());
  EXPECT_TRUE(lineup.ok()) << lineup.status();
  return lineup.ok() ? *std::move(lineup) : PlanLineup{};
}

/// As if each setting of a program had the same recall and took `seconds(program)`.
SweepResult Ran(const PlanLineup& lineup,
                const std::function<double(const std::string&)>& seconds) {
  SweepResult ran;
  ran.data = {{"base", "base.u8bin"}};
  ran.rounds = 1;
  ran.reading = {
      .queries = 1000, .k = 10, .clock = RunClock::kWall, .targets = {0.95}, .reference = ""};
  for (const ContestantSpec& spec : lineup.programs) {
    ContestantRuns& program = ran.runs.emplace_back();
    program.name = spec.name;
    for (const Json& setting : spec.settings) {
      const double time = seconds(spec.name);
      program.settings.push_back({setting, nullptr, {0.96}, {time}, {time}});
    }
  }
  return ran;
}

TEST(PlanLineup, EachShareHasThreeCurvesHeldAgainstThePlan) {
  const PlanLineup lineup = MustLineUp(Contest());
  ASSERT_EQ(lineup.curves.size(), 6u);
  std::set<std::string> programs;
  for (const ContestantSpec& spec : lineup.programs)
    EXPECT_TRUE(programs.insert(spec.name).second) << spec.name;
  EXPECT_EQ(programs.size(), 5u) << "one of HNSW, which is one index for both shares";
  for (std::size_t i = 0; i < lineup.curves.size(); ++i) {
    const PlanCurve& curve = lineup.curves[i];
    SCOPED_TRACE(curve.name);
    EXPECT_TRUE(programs.contains(curve.program));
    EXPECT_THAT(curve.name, testing::EndsWith(i < 3 ? ", 40 %" : ", 80 %"));
    EXPECT_EQ(curve.against, lineup.curves[i / 3 * 3].name);
    EXPECT_EQ(curve.budget_bytes, lineup.curves[i / 3 * 3].budget_bytes);
    EXPECT_EQ(curve.kind, i % 3 == 2 ? "model" : "emulated");
    EXPECT_LE(curve.fast_bytes, curve.budget_bytes);
    EXPECT_GT(*curve.predicted_us, 0);
  }
  EXPECT_GE(*lineup.curves[1].predicted_us, 0.99 * *lineup.curves[0].predicted_us)
      << "the planner's own opinion of the rule";
  EXPECT_EQ(lineup.programs[1].build["bits"], 0) << "upper layers first has no codes";
}

TEST(PlanLineup, EachSideIsSearchedByReachWhereDistancesHaveMultiples) {
  PlanContest contest = Contest();
  contest.widths = PlanContest().widths;
  for (const Metric metric : {Metric::kL2, Metric::kCosine, Metric::kInnerProduct}) {
    ContestantJob job = Job();
    job.metric = metric;
    const absl::StatusOr<PlanLineup> lineup = LineUpPlans(contest, job);
    ASSERT_TRUE(lineup.ok()) << lineup.status();
    for (const ContestantSpec& spec : lineup->programs) {
      if (spec.name == "HNSW") continue;
      SCOPED_TRACE(testing::Message() << Name(metric) << ", " << spec.name);
      std::map<std::string, int> by_epsilon, walks;
      for (const Json& setting : spec.settings) {
        ++walks[setting["walk"].get<std::string>()];
        by_epsilon[setting["walk"].get<std::string>()] += setting.contains("epsilon") ? 1 : 0;
      }
      const bool reaches = metric != Metric::kInnerProduct, codes = spec.build["bits"] > 0;
      EXPECT_EQ(by_epsilon["best-first"], reaches ? walks["best-first"] : 0);
      EXPECT_GE(walks["best-first"], 8);
      EXPECT_EQ(by_epsilon["quantised"] > 0, reaches && codes);
      EXPECT_EQ(walks["quantised"] > 0, codes);
      EXPECT_EQ(walks["multi-start"], 3);
      EXPECT_LE(spec.settings.size(), codes ? 30u : 12u) << "a round has to end some day";
    }
  }
}

TEST(PlanLineup, EveryRunBelongsToOneCurve) {
  const PlanLineup lineup = MustLineUp(Contest());
  std::size_t settings = 0, in_curves = 0;
  for (const ContestantSpec& spec : lineup.programs) {
    std::set<std::string> different;
    for (const Json& setting : spec.settings)
      EXPECT_TRUE(different.insert(setting.dump()).second) << spec.name << ": " << setting;
    settings += spec.settings.size();
  }
  const Json figures = PlanFigures(Ran(lineup, [](const std::string&) { return 1.0; }), lineup);
  for (const Json& curve : figures["contestants"]) {
    EXPECT_GE(curve["points"].size(), 2u) << curve["name"];
    in_curves += curve["points"].size();
  }
  EXPECT_EQ(in_curves, settings);
}

TEST(PlanFigures, TimesAreMultiplesOfThePlansWithTheSameMemory) {
  const PlanLineup lineup = MustLineUp(Contest());
  const Json figures =
      PlanFigures(Ran(lineup,
                      [](const std::string& program) {
                        if (program == "HNSW") return 6.0;
                        const bool rule = program.starts_with("upper");
                        return program.ends_with("40 %") ? (rule ? 3.0 : 2.0) : (rule ? 2.0 : 1.0);
                      }),
                  lineup);
  ASSERT_EQ(figures["plan"].size(), 6u);
  const double expected[] = {1, 1.5, 3, 1, 2, 6};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(figures["plan"][i]["of_plan"].get<double>(), expected[i], 1e-9)
        << figures["plan"][i];
    EXPECT_EQ(figures["plan"][i]["recall"], 0.95);
  }
  EXPECT_NEAR(figures["plan"][0]["mean_us"].get<double>(), 2000, 1e-6) << "2 s for 1000 queries";
}

TEST(PlanContest, WhatMakesNoSenseIsNamed) {
  const auto refusal = [](auto change) {
    PlanContest contest = Contest();
    change(contest);
    const absl::Status status = LineUpPlans(contest, Job()).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](PlanContest& c) { c.shares.clear(); }),
              HasSubstr("shares: expected at least one"));
  EXPECT_THAT(refusal([](PlanContest& c) { c.shares = {1.5}; }),
              HasSubstr("shares: expected between 0 and 1"));
  EXPECT_THAT(refusal([](PlanContest& c) { c.widths.clear(); }),
              HasSubstr("widths: expected at least one"));
  EXPECT_THAT(refusal([](PlanContest& c) { c.widths = {0}; }), HasSubstr("each at least 1"));
  EXPECT_FALSE(refusal([](PlanContest& c) { c.emulated = "slowly"; }).empty());
  EXPECT_THAT(refusal([](PlanContest& c) { c.shares = {0.0001}; }),
              HasSubstr("the plan, 0.01 %: "));
}

}  // namespace
}  // namespace hmann
