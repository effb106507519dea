#include <gtest/gtest.h>

#include "index/distance/simd_level.h"
#include "index/sketch/choose.h"
#include "index/sketch/conformance.h"

namespace hmann {
namespace {

class SketchKernelsTest : public testing::TestWithParam<const SimdLevel*> {};

TEST_P(SketchKernelsTest, EqualSumsTakenLevelByLevel) {
  const SketchKernels* kernels = FindSketchKernels(GetParam()->name);
  ASSERT_NE(kernels, nullptr) << "a level of index/distance without sketch kernels";
  if (!GetParam()->supported()) GTEST_SKIP() << GetParam()->name << " is not supported here";
  for (const std::size_t dim : sketch_conformance::Dims()) EXPECT_EQ(sketch_conformance::CountMismatches(*kernels, dim), 0u) << dim;
}

TEST_P(SketchKernelsTest, AreOfTheirOwn) {
  for (const SimdLevel& other : BuiltSimdLevels()) {
    if (other.name == GetParam()->name) continue;
    EXPECT_NE(FindSketchKernels(other.name)->gathered[1], FindSketchKernels(GetParam()->name)->gathered[1]);
  }
}

std::vector<const SimdLevel*> AllLevels() {
  std::vector<const SimdLevel*> levels;
  for (const SimdLevel& level : BuiltSimdLevels()) levels.push_back(&level);
  return levels;
}
INSTANTIATE_TEST_SUITE_P(All, SketchKernelsTest, testing::ValuesIn(AllLevels()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(SketchCodes, AreTheSameBytesEverywhere) { EXPECT_EQ(sketch_conformance::CodeFingerprint(), sketch_conformance::kCodeFingerprint); }

TEST(FindSketchKernels, KnowsNoOtherLevel) { EXPECT_EQ(FindSketchKernels("sse9"), nullptr); }

}  // namespace
}  // namespace hmann
