#include "index/tune/plan_structure.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "index/construct/build_bytes.h"
#include "index/construct/pipeline.h"

namespace hmann {
namespace {

TEST(PlanShape, WideVectorsGetMoreLinks) {
  BuildOptions options;
  EXPECT_EQ(ShapeOf(options, 1000, 96, DType::kF32).m, 16u);
  EXPECT_EQ(ShapeOf(options, 1000, 97, DType::kF32).m, 24u);
  EXPECT_EQ(ShapeOf(options, 1000, 192, DType::kF16).m, 16u);
  options.m = 12;
  EXPECT_EQ(ShapeOf(options, 1000, 97, DType::kF32).m, 12u);
}

TEST(EstimateBuild, KnowsTheFileAndTheMemory) {
  BuildOptions options;
  options.base = "datasets/sample/base.u8bin";
  options.out = absl::StrCat(testing::TempDir(), "/plan_structure.hmann.", getpid());
  options.rows = 3000;
  options.ef_construction = 20;
  options.promote = 0.1;
  Progress quiet(Progress::Show::kNever);
  for (const std::uint32_t bits : {0u, 2u}) {
    options.bits = bits;
    const absl::StatusOr<BuildReport> report = BuildIndex(options, quiet);
    ASSERT_TRUE(report.ok()) << report.status();
    const BuildEstimate estimate = *EstimateBuild(*ShapeOf(options), {300, bits, 1});
    EXPECT_NEAR(
        static_cast<double>(estimate.file_bytes) / static_cast<double>(report->info.file_bytes), 1,
        0.01)
        << bits;
    const BuildShape shape{.n = 3000,
                           .n1 = 300,
                           .m = DefaultM(DType::kU8, 128),
                           .dim = 128,
                           .stride = 128,
                           .bits = bits,
                           .replicas = 1,
                           .method = BuildMethod::kPartition};
    EXPECT_EQ(estimate.memory_bytes, BuildBytes(shape))
        << "what index/construct/build_bytes_test.cc holds against the kernel's counts";
  }
  std::remove(options.out.c_str());
}

}  // namespace
}  // namespace hmann
