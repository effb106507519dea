#include "hmann/distance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "index/base/random.h"
#include "index/distance/half.h"
#include "index/distance/reference.h"
#include "index/distance/simd_level.h"
#include "index/distance/testing/conformance.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

constexpr DType kDTypes[] = {DType::kF32, DType::kU8, DType::kI8, DType::kF16};
constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Sets HMANN_SIMD for a scope; nullptr unsets it.
class ForcedSimd {
 public:
  explicit ForcedSimd(const char* value) {
    if (const char* old = std::getenv("HMANN_SIMD")) old_ = old;
    Set(value);
  }
  ~ForcedSimd() { Set(old_ ? old_->c_str() : nullptr); }

 private:
  static void Set(const char* value) {
    value ? setenv("HMANN_SIMD", value, 1) : unsetenv("HMANN_SIMD");
  }
  std::optional<std::string> old_;
};

Kernels MustChoose(DType dtype, Metric metric, std::uint32_t dim) {
  absl::StatusOr<Kernels> kernels = ChooseKernels(dtype, metric, dim);
  EXPECT_TRUE(kernels.ok()) << kernels.status();
  return *kernels;
}

template <class Component>
std::vector<std::byte> MustEncode(const Kernels& kernels, const std::vector<Component>& vector) {
  std::vector<std::byte> row(kernels.row_bytes);
  const absl::Status status = EncodeRow(kernels, vector.data(), row.data());
  EXPECT_TRUE(status.ok()) << status;
  return row;
}

template <class Component>
float Measure(const Kernels& kernels, const std::vector<Component>& a,
              const std::vector<Component>& b) {
  return kernels.ToDistance(
      kernels.one(MustEncode(kernels, a).data(), MustEncode(kernels, b).data(), kernels.dim));
}

absl::Status EncodeF32(Metric metric, std::vector<float> vector) {
  const Kernels kernels =
      MustChoose(DType::kF32, metric, static_cast<std::uint32_t>(vector.size()));
  std::vector<std::byte> row(kernels.row_bytes);
  return EncodeRow(kernels, vector.data(), row.data());
}

class LevelTest : public testing::TestWithParam<const SimdLevel*> {};

TEST_P(LevelTest, EqualsTheReferenceAndManyEqualsOne) {
  if (!GetParam()->supported()) GTEST_SKIP() << GetParam()->name << " is not supported here";
  for (const std::size_t dim : conformance::Dims())
    EXPECT_EQ(conformance::CountMismatches(*GetParam(), dim), 0u) << "dim " << dim;
}

TEST_P(LevelTest, ForcedLevelIsTheOneThatRuns) {
  const SimdLevel& level = *GetParam();
  const ForcedSimd forced(level.name);
  const absl::StatusOr<std::string_view> chosen = ChosenSimd();
  if (!level.supported()) {
    EXPECT_EQ(chosen.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ChooseKernels(DType::kU8, Metric::kL2, 128).status(), chosen.status());
    return;
  }
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(*chosen, level.name);
  for (const DType dtype : kDTypes) {
    for (const Metric metric : kMetrics) {
      for (const std::uint32_t dim : {1u, 96u, 100u, 128u}) {
        const Kernels kernels = MustChoose(dtype, metric, dim);
        EXPECT_EQ(kernels.simd, level.name);
        EXPECT_EQ(kernels.one, FindKernel(level.table(), dtype, metric, dim)->one);
        EXPECT_EQ(kernels.many, FindKernel(level.table(), dtype, metric, dim)->many);
      }
    }
  }
}

TEST_P(LevelTest, HasKernelsOfItsOwn) {
  for (const SimdLevel& other : BuiltSimdLevels()) {
    if (other.name == GetParam()->name) continue;
    EXPECT_NE(FindKernel(other.table(), DType::kU8, Metric::kL2, 128)->many,
              FindKernel(GetParam()->table(), DType::kU8, Metric::kL2, 128)->many);
  }
}

std::vector<const SimdLevel*> AllLevels() {
  std::vector<const SimdLevel*> levels;
  for (const SimdLevel& level : BuiltSimdLevels()) levels.push_back(&level);
  return levels;
}
INSTANTIATE_TEST_SUITE_P(All, LevelTest, testing::ValuesIn(AllLevels()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(Levels, AgreeOnIntegers) {
  for (const std::size_t dim : conformance::Dims())
    EXPECT_EQ(conformance::CountDisagreements(dim), 0u) << "dim " << dim;
}

TEST(Levels, BestSupportedIsTheDefault) {
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const ForcedSimd none(unset);
    const SimdLevel* best = BuiltSimdLevels().begin();
    while (!best->supported()) ++best;
    ASSERT_TRUE(ChosenSimd().ok());
    EXPECT_EQ(*ChosenSimd(), best->name);
  }
}

TEST(Levels, UnknownNameIsAnErrorThatListsTheLevels) {
  const ForcedSimd forced("sse9");
  for (const absl::Status& status :
       {ChosenSimd().status(), ChooseKernels(DType::kF32, Metric::kL2, 8).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr("'sse9'"), HasSubstr("scalar")));
  }
}

TEST(ChooseKernels, RefusesDimsOutOfRange) {
  for (const std::uint32_t dim : {0u, kMaxDim + 1, ~0u}) {
    EXPECT_EQ(ChooseKernels(DType::kU8, Metric::kL2, dim).status().code(),
              absl::StatusCode::kInvalidArgument)
        << dim;
  }
  EXPECT_TRUE(ChooseKernels(DType::kU8, Metric::kL2, kMaxDim).ok());
}

TEST(ChooseKernels, RowBytes) {
  EXPECT_EQ(MustChoose(DType::kF32, Metric::kCosine, 5).row_bytes, 20u);
  EXPECT_EQ(MustChoose(DType::kF16, Metric::kCosine, 5).row_bytes, 10u);
  EXPECT_EQ(MustChoose(DType::kU8, Metric::kL2, 5).row_bytes, 5u);
  EXPECT_EQ(MustChoose(DType::kU8, Metric::kCosine, 5).row_bytes, 12u);
  EXPECT_EQ(MustChoose(DType::kI8, Metric::kCosine, 8).row_bytes, 12u);
}

TEST(Names, RoundTripAndErrors) {
  for (const DType dtype : kDTypes) EXPECT_EQ(*ParseDType(Name(dtype)), dtype);
  for (const Metric metric : kMetrics) EXPECT_EQ(*ParseMetric(Name(metric)), metric);
  EXPECT_THAT(std::string(ParseDType("bf16").status().message()),
              HasSubstr("expected f32, u8, i8 or f16; found 'bf16'"));
  EXPECT_THAT(std::string(ParseMetric("l1").status().message()),
              HasSubstr("expected l2, ip or cosine; found 'l1'"));
}

TEST(Keys, OrderDistancesAndComeBack) {
  const Kernels kernels = MustChoose(DType::kF32, Metric::kInnerProduct, 1);
  std::vector<DistanceKey> keys;
  for (const float x : {1e18f, 2.0f, 1e-40f, 0.0f, -1e-40f, -2.0f, -1e18f}) {  // larger dot: nearer
    keys.push_back(kernels.one(MustEncode<float>(kernels, {x}).data(),
                               MustEncode<float>(kernels, {1.0f}).data(), 1));
    EXPECT_EQ(kernels.ToDistance(keys.back()), -x);
  }
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end(), std::less_equal<>())) << "strictly rising";
  const Kernels bytes = MustChoose(DType::kI8, Metric::kInnerProduct, 1);
  EXPECT_EQ(Measure<std::int8_t>(bytes, {-128}, {-128}), -16384.0f);
  EXPECT_EQ(Measure<std::int8_t>(bytes, {-128}, {127}), 16256.0f);
}

TEST(Keys, ZeroHasOneKey) {
  const Kernels kernels = MustChoose(DType::kF32, Metric::kInnerProduct, 1);
  const auto key = [&](float a, float b) {
    return kernels.one(MustEncode<float>(kernels, {a}).data(),
                       MustEncode<float>(kernels, {b}).data(), 1);
  };
  EXPECT_EQ(key(0.0f, 1.0f), key(-0.0f, 1.0f));
  EXPECT_EQ(key(0.0f, 1.0f), key(0.0f, -1.0f));
}

TEST(Cosine, IsTheAngleOfWhatTheUserGave) {
  const Kernels f32 = MustChoose(DType::kF32, Metric::kCosine, 3);
  EXPECT_NEAR((Measure<float>(f32, {3, 4, 0}, {300, 400, 0})), 0.0, 1e-6);
  EXPECT_NEAR((Measure<float>(f32, {1e-30f, 0, 0}, {0, 1e18f, 0})), 1.0, 1e-6);
  EXPECT_NEAR((Measure<float>(f32, {1, 2, 3}, {-2, -4, -6})), 2.0, 1e-6);
  const Kernels u8 = MustChoose(DType::kU8, Metric::kCosine, 3);
  EXPECT_NEAR((Measure<std::uint8_t>(u8, {3, 4, 0}, {30, 40, 0})), 0.0, 1e-6);
  EXPECT_NEAR((Measure<std::uint8_t>(u8, {255, 0, 0}, {0, 1, 0})), 1.0, 1e-6);
  EXPECT_NEAR((Measure<std::uint8_t>(u8, {1, 1, 0}, {0, 1, 1})), 0.5, 1e-6);
  const Kernels i8 = MustChoose(DType::kI8, Metric::kCosine, 3);
  EXPECT_NEAR((Measure<std::int8_t>(i8, {-128, -128, -128}, {127, 127, 127})), 2.0, 1e-6);
}

TEST(Cosine, StaysWithinZeroAndTwo) {
  const Kernels kernels = MustChoose(DType::kF32, Metric::kCosine, 128);
  std::vector<float> v(128), opposite(128);
  for (int trial = 0; trial < 200; ++trial) {
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = static_cast<float>(std::sin(trial * 128.0 + static_cast<double>(i))),
      opposite[i] = -v[i];
    EXPECT_GE(Measure(kernels, v, v), 0.0f);
    EXPECT_LE(Measure(kernels, v, opposite), 2.0f);
  }
}

TEST(EncodeRow, NamesTheComponentThatIsNotFinite) {
  for (const Metric metric : kMetrics) {
    const absl::Status nan = EncodeF32(metric, {1, std::nanf(""), 3}),
                       inf = EncodeF32(metric, {1, 2, -kInf});
    EXPECT_EQ(nan.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(nan.message()),
                testing::AllOf(HasSubstr("component 1"), HasSubstr("NaN")));
    EXPECT_EQ(inf.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(inf.message()),
                testing::AllOf(HasSubstr("component 2"), HasSubstr("-Inf")));
  }
}

TEST(EncodeRow, RefusesNormsWhoseDistancesOverflow) {
  for (const Metric metric : {Metric::kL2, Metric::kInnerProduct}) {
    EXPECT_EQ(EncodeF32(metric, {1e19f, 1e19f}).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(EncodeF32(metric, {3e38f}).message()), HasSubstr("squared norm"));
    const Kernels kernels = MustChoose(DType::kF32, metric, 1);
    EXPECT_TRUE(std::isfinite(Measure<float>(kernels, {9.2e18f}, {-9.2e18f})));
  }
  EXPECT_TRUE(EncodeF32(Metric::kCosine, {3e38f, 3e38f}).ok())
      << "normalized, so it cannot overflow";
}

/// An index that is built again from its rows has the same bytes.
TEST(EncodeRow, KeepsWhatItHasNormalized) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    for (const std::uint32_t dim : {1u, 2u, 3u, 100u, 768u, 4096u}) {
      const Kernels kernels = MustChoose(dtype, Metric::kCosine, dim);
      std::vector<float> vector(dim);
      std::vector<Half> halves(dim);
      std::vector<std::byte> row(kernels.row_bytes), again(kernels.row_bytes);
      for (std::uint64_t i = 0; i < 300'000 / dim + 300; ++i) {
        // From components of about one size to few large ones.
        for (std::uint32_t d = 0; d < dim; ++d) {
          vector[d] = static_cast<float>(std::pow(2 * RandomUnit(i, d) - 1, 1 << i % 6));
          halves[d] = Half::Nearest(vector[d]);
        }
        vector[i % dim] = 0.9f;
        halves[i % dim] = Half::Nearest(0.9f);
        const void* given = halves.data();
        if (dtype == DType::kF32) given = vector.data();
        ASSERT_TRUE(EncodeRow(kernels, dtype, given, row.data()).ok());
        ASSERT_TRUE(EncodeRow(kernels, dtype, row.data(), again.data()).ok());
        ASSERT_TRUE(row == again) << Name(dtype) << " " << dim << ", vector " << i;
      }
    }
  }
  // Whatever rounding does not explain is normalized.
  const Kernels f32 = MustChoose(DType::kF32, Metric::kCosine, 1);
  for (const float near : {1 + 0x1p-23f, 1 - 0x1p-23f})
    EXPECT_EQ(MustEncode<float>(f32, {near}), MustEncode<float>(f32, {1}));
}

TEST(EncodeRow, ZeroVectorIsAnErrorUnderCosineOnly) {
  const std::uint8_t zeros[4] = {};
  std::byte row[16];
  for (const DType dtype : {DType::kU8, DType::kI8}) {
    const absl::Status status = EncodeRow(MustChoose(dtype, Metric::kCosine, 4), zeros, row);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("zero vector"));
    EXPECT_TRUE(EncodeRow(MustChoose(dtype, Metric::kL2, 4), zeros, row).ok());
  }
  EXPECT_THAT(std::string(EncodeF32(Metric::kCosine, {0, -0.0f}).message()),
              HasSubstr("zero vector"));
  EXPECT_TRUE(EncodeF32(Metric::kCosine, {0, std::numeric_limits<float>::denorm_min()}).ok());
  EXPECT_TRUE(EncodeF32(Metric::kInnerProduct, {0, 0}).ok());
}

TEST(EncodeRow, WritesRowBytesAndReadsUnaligned) {
  const Kernels kernels = MustChoose(DType::kU8, Metric::kCosine, 5);
  const std::uint8_t vector[6] = {0, 1, 2, 3, 4, 5};
  std::byte row[14];
  std::memset(row, 0xee, sizeof(row));
  ASSERT_TRUE(EncodeRow(kernels, vector + 1, row + 1).ok());
  EXPECT_EQ(std::memcmp(row + 1, vector + 1, 5), 0);
  EXPECT_EQ(std::memcmp(row + 6, "\0\0\0", 3), 0)
      << "padding is zeros, so that equal vectors are equal bytes";
  float inverse_norm;
  std::memcpy(&inverse_norm, row + 9, 4);
  EXPECT_FLOAT_EQ(inverse_norm, static_cast<float>(1 / std::sqrt(55.0)));
  EXPECT_EQ(row[0], std::byte{0xee});
  EXPECT_EQ(row[13], std::byte{0xee});
}

}  // namespace
}  // namespace hmann
