#include "index/tune/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/base/units.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

/// A million vectors that there are not yet.
PlanInput Million(std::uint64_t fast_bytes) {
  PlanInput input;
  input.build.rows = 1'000'000;
  input.dim = 128;
  input.request.fast_bytes = fast_bytes;
  return input;
}

TEST(ReportPlan, TakesAsManyRowsAsThereWillBe) {
  Progress quiet(Progress::Show::kNever);
  const absl::StatusOr<PlanReport> report = ReportPlan(Million(100_MiB), quiet);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->request.shape.n, 1'000'000u);
  EXPECT_LE(report->plan.used.fast, 100_MiB);
  EXPECT_GT(report->build.seconds, 0);
  EXPECT_THAT(report->warnings, testing::IsEmpty());
  PlanInput nothing = Million(100_MiB);
  nothing.build.rows = 0;
  EXPECT_EQ(ReportPlan(nothing, quiet).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReportPlan, SaysHowABillionIsBuiltInTheMemoryItIsServedFrom) {
  Progress quiet(Progress::Show::kNever);
  PlanInput input = Million(96_GiB);
  input.build.rows = 1'000'000'000;
  absl::StatusOr<PlanReport> report = ReportPlan(input, quiet);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->build.bounded.has_value());
  EXPECT_GT(report->build.memory_bytes, 96_GiB) << "in memory it cannot be built";
  EXPECT_LT(report->build.bounded->least_bytes, 96_GiB);
  EXPECT_GT(report->build.bounded->base_passes, 20u);
  EXPECT_LT(report->build.bounded->work_bytes, 1'000'000'000u * 220ull);
  EXPECT_GT(report->build.bounded->work_bytes, 1'000'000'000u * 128ull);
  input.build.method = BuildMethod::kInsertion;
  report = ReportPlan(input, quiet);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->build.bounded.has_value());
}

TEST(ExplainPlan, BeginsWithThePlanAndSaysWhatAGiBIsWorth) {
  Progress quiet(Progress::Show::kNever);
  const absl::StatusOr<PlanReport> report = ReportPlan(Million(100_MiB), quiet);
  ASSERT_TRUE(report.ok()) << report.status();
  std::vector<PlanCase> cases = ExplainPlan(*report);
  ASSERT_EQ(cases.size(), 6u) << "no middle memory";
  EXPECT_EQ(cases[0].plan->predicted_us, report->plan.predicted_us);
  EXPECT_EQ(cases[1].fast_bytes, 100_MiB + 1_GiB);
  EXPECT_GT(WorthOfAGiB(cases), 0.0);
  EXPECT_LT(WorthOfAGiB(cases), 1.0);
  cases[0].plan.reset();
  EXPECT_FALSE(WorthOfAGiB(cases).has_value());
}

TEST(PlanOverFastMemory, IsForATierThatThePlannerKnows) {
  const SampleFolder folder;
  BuildOptions build = SmallBuild(folder, DType::kU8, Metric::kL2, 2000, 64);
  build.promote = 0.1;
  MustBuild(build);
  Progress quiet(Progress::Show::kNever);
  for (const auto& [slow, planned] :
       {std::pair("mapped", "nvme"), {"dram", "nvme"}, {"nvme:/mnt/x", "nvme"}}) {
    const absl::StatusOr<FastMemoryCurve> curve =
        PlanOverFastMemory(build.out, "", "", slow, quiet);
    ASSERT_TRUE(curve.ok()) << curve.status();
    EXPECT_EQ(curve->slow, planned) << slow;
    EXPECT_EQ(curve->shape.n, 2000u);
    for (std::size_t i = 1; i < curve->points.size(); ++i)
      EXPECT_GT(curve->points[i].fast_bytes, curve->points[i - 1].fast_bytes);
  }
}

}  // namespace
}  // namespace hmann
