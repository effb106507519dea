#include "index/tune/build_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "index/tune/placement_choices.h"

namespace hmann {
namespace {

const PlanShape kMillion{1000000, 128, DType::kU8, Metric::kL2, 16, 100, false, 1};

BuildEstimate MustEstimate(const PlanShape& shape, int threads = 2) {
  const auto estimate = EstimateBuild(shape, {static_cast<NodeId>(shape.n / 10), 2, 1, CodePlace::kHub}, DefaultProfile(), threads);
  EXPECT_TRUE(estimate.ok()) << estimate.status();
  return estimate.ok() ? *estimate : BuildEstimate{};
}

TEST(EstimateBuild, GrowsAsNLogNWithoutRefinement) {
  PlanShape large = kMillion;
  large.n = 64000000;
  const BuildEstimate first = MustEstimate(kMillion), second = MustEstimate(large);
  EXPECT_NEAR(second.seconds / first.seconds, 64 * std::log2(64e6) / std::log2(1e6), 0.1);
  EXPECT_NEAR(MustEstimate(kMillion, 1).seconds, 2 * first.seconds, 1e-6);
  EXPECT_GT(first.memory_bytes, 1000000u * (128 + 128));
  EXPECT_NEAR(static_cast<double>(second.file_bytes) / static_cast<double>(first.file_bytes), 64, 0.5);
}

TEST(EstimateBuild, CountsTheRefinement) {
  PlanShape refined = kMillion;
  refined.alpha = 1.2f;
  const double plain = MustEstimate(kMillion).seconds, with = MustEstimate(refined).seconds;
  EXPECT_NEAR(with / plain, 66.0 / 40, 0.1) << "as measured";
  EXPECT_EQ(PlanShape().alpha, BuildOptions().alpha) << "who says nothing gets the build that says nothing";

  // It depends on neither the beam nor log n, but on the length of the lists.
  PlanShape wide = kMillion, wide_refined = refined;
  wide.ef_construction = wide_refined.ef_construction = 400;
  EXPECT_LT(MustEstimate(wide_refined).seconds / MustEstimate(wide).seconds, 1.3);
  PlanShape long_lists = refined;
  long_lists.m = 32;
  EXPECT_GT(MustEstimate(long_lists).seconds, 1.2 * with);
}

TEST(EstimateBuild, InnerProductsAreNotRefined) {
  PlanShape products = kMillion, refined = kMillion, cosine = kMillion;
  products.metric = refined.metric = Metric::kInnerProduct;
  cosine.metric = Metric::kCosine;
  refined.alpha = 1.2f;
  EXPECT_EQ(MustEstimate(refined).seconds, MustEstimate(products).seconds);
  const double plain = MustEstimate(cosine).seconds;
  cosine.alpha = 1.2f;
  EXPECT_GT(MustEstimate(cosine).seconds, 1.5 * plain);
}

TEST(EstimateBuild, AlphaIsChecked) {
  PlanShape shape = kMillion;
  shape.alpha = 0.5f;
  EXPECT_EQ(EstimateBuild(shape, {100000, 0, 1, CodePlace::kHub}, DefaultProfile(), 1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hmann
