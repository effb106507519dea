#include "index/tune/plan_report.h"

#include <gtest/gtest.h>

#include "hmann/hmann.h"
#include "index/base/units.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

/// A million vectors that do not exist yet.
PlanInput Million(std::uint64_t fast_bytes) {
  PlanInput input;
  input.build.rows = 1'000'000;
  input.dim = 128;
  input.plan.fast_memory_bytes = fast_bytes;
  return input;
}

TEST(ReportPlan, TakesAsManyRowsAsThereWillBe) {
  const absl::StatusOr<PlanReport> report = ReportPlan(Million(100_MiB));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->request.shape.n, 1'000'000u);
  EXPECT_LE(report->plan.fast_bytes, 100_MiB);
  EXPECT_GT(report->build.file_bytes, 100_MiB);
  PlanInput nothing = Million(100_MiB);
  nothing.build.rows = 0;
  EXPECT_EQ(ReportPlan(nothing).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReportPlan, SaysHowABillionIsBuiltInTheMemoryItIsServedFrom) {
  PlanInput input = Million(96_GiB);
  input.build.rows = 1'000'000'000;
  absl::StatusOr<PlanReport> report = ReportPlan(input);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->build.bounded.has_value());
  EXPECT_GT(report->build.memory_bytes, 96_GiB) << "in memory it cannot be built";
  EXPECT_LT(report->build.bounded->least_bytes, 96_GiB);
  EXPECT_GT(report->build.bounded->base_passes, 12u);
  EXPECT_LT(report->build.bounded->base_passes, 40u);
  // Two copies of each vector and more are among them.
  EXPECT_LT(report->build.bounded->work_bytes, 1'000'000'000u * 640ull);
  EXPECT_GT(report->build.bounded->work_bytes, 1'000'000'000u * 128ull);
  input.build.method = BuildMethod::kInsertion;
  report = ReportPlan(input);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->build.bounded.has_value());
  // Vectors, plain lists and two checkpoints of these.
  EXPECT_GT(report->build.bounded->work_bytes, 1'000'000'000u * (128 + 3 * 128ull));
}

/// The header of an index is enough to plan.
TEST(ReportPlan, AFinishedIndexKeepsItsStructureWhereItIsTold) {
  const SampleFolder folder;
  BuildOptions build = SmallBuild(folder, DType::kU8, Metric::kL2, 2000, 64);
  build.promote = 0.1;
  const IndexInfo info = MustBuild(build).info;
  PlanInput input;
  input.build.from_index = build.out;
  input.plan.threads = 1;
  input.plan.fast_memory_bytes = ReservedFastBytes(0, 1) + 120_KiB;
  absl::StatusOr<PlanReport> report = ReportPlan(input);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->request.shape.n, 2000u);
  EXPECT_EQ(report->request.shape.dim, 64u);
  EXPECT_NE(report->plan.structure.n1, 200u);
  input.as_is = true;
  report = ReportPlan(input);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->plan.structure.n1, 200u);
  EXPECT_EQ(report->plan.structure.bits, info.codes.bits);
  EXPECT_NEAR(static_cast<double>(report->plan.file_bytes) / static_cast<double>(info.file_bytes),
              1, 0.01);
  // An open index reports the same: the order of labels stays in the file, on every tier.
  const auto open = Index::Open(build.out, {.fast = "dram", .slow = "mapped"});
  ASSERT_TRUE(open.ok()) << open.status();
  std::uint64_t fast = 0, planned = 0;
  for (const Placement& placement : (*open)->Placements()) {
    if (!placement.structure.starts_with("label_") && placement.structure != "l0")
      fast += placement.bytes;
  }
  for (const PlacedBytes& line : report->plan.bytes) {
    if (line.structure == "upper links" || line.structure == "promoted vectors" ||
        line.structure == "labels of promoted" || line.structure == "codes" ||
        line.structure == "cells")
      planned += line.bytes;
  }
  EXPECT_NEAR(static_cast<double>(planned) / static_cast<double>(fast), 1, 0.01);
  input.build.from_index += ".absent";
  EXPECT_EQ(ReportPlan(input).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hmann
