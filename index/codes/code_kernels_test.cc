#include <gtest/gtest.h>

#include "index/codes/choose.h"
#include "index/codes/testing/conformance.h"
#include "index/distance/simd_level.h"

namespace hmann {
namespace {

class CodeKernelsTest : public testing::TestWithParam<const SimdLevel*> {};

TEST_P(CodeKernelsTest, EqualSumsTakenLevelByLevel) {
  const CodeKernels* kernels = FindCodeKernels(GetParam()->name);
  ASSERT_NE(kernels, nullptr) << "a level of index/distance without code kernels";
  if (!GetParam()->supported()) GTEST_SKIP() << GetParam()->name << " is not supported here";
  for (const std::size_t dim : code_conformance::Dims())
    EXPECT_EQ(code_conformance::CountMismatches(*kernels, dim), 0u) << dim;
}

TEST_P(CodeKernelsTest, AreOfTheirOwn) {
  for (const SimdLevel& other : BuiltSimdLevels()) {
    if (other.name == GetParam()->name) continue;
    EXPECT_NE(FindCodeKernels(other.name)->gathered[1],
              FindCodeKernels(GetParam()->name)->gathered[1]);
  }
}

std::vector<const SimdLevel*> AllLevels() {
  std::vector<const SimdLevel*> levels;
  for (const SimdLevel& level : BuiltSimdLevels()) levels.push_back(&level);
  return levels;
}
INSTANTIATE_TEST_SUITE_P(All, CodeKernelsTest, testing::ValuesIn(AllLevels()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(CodeBytesOf, AreTheSameBytesEverywhere) {
  EXPECT_EQ(code_conformance::CodeFingerprint(), code_conformance::kCodeFingerprint);
}

TEST(FindCodeKernels, KnowsNoOtherLevel) { EXPECT_EQ(FindCodeKernels("sse9"), nullptr); }

}  // namespace
}  // namespace hmann
