#include "index/distance/half.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "hmann/distance.h"

namespace hmann {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of the bits by definition.
double ByTheBook(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  const double magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Half, EveryPatternIsItsNumberAndComesBack) {
  int numbers = 0;
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const float value = half;
    if ((bits & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(static_cast<float>(Half::Nearest(value)))) << bits;
      continue;
    }
    ++numbers;
    ASSERT_EQ(value, ByTheBook(half.bits)) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(Half::Nearest(value).bits, bits);
  }
  EXPECT_EQ(numbers, 65536 - 2 * 1023);
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const float below = Half{bits}, above = Half{static_cast<std::uint16_t>(bits + 1)};
    const float middle = below + (above - below) / 2;  // exact in f32
    const std::uint16_t even = bits % 2 == 0 ? bits : static_cast<std::uint16_t>(bits + 1);
    ASSERT_EQ(Half::Nearest(middle).bits, even) << middle;
    ASSERT_EQ(Half::Nearest(-middle).bits, even | 0x8000) << middle;
    ASSERT_EQ(Half::Nearest(std::nextafter(middle, 0.0f)).bits, bits) << middle;
    ASSERT_EQ(Half::Nearest(std::nextafter(middle, kInfinity)).bits, bits + 1) << middle;
  }
  EXPECT_EQ(Half::Nearest(65519.996f).bits, 0x7bff) << "the largest: 65504";
  EXPECT_EQ(Half::Nearest(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Half::Nearest(-1e30f).bits, 0xfc00);
  EXPECT_EQ(Half::Nearest(1e-8f).bits, 0) << "less than half of the least";
}

absl::Status Encode(Metric metric, DType from, const void* vector, std::uint32_t dim,
                    std::vector<float>* row = nullptr) {
  const Kernels kernels = *ChooseKernels(DType::kF16, metric, dim);
  std::vector<std::byte> bytes(kernels.row_bytes);
  const absl::Status status = EncodeRow(kernels, from, vector, bytes.data());
  if (row != nullptr) {
    row->resize(dim);
    ReadComponents(DType::kF16, bytes.data(), dim, row->data());
  }
  return status;
}
absl::Status Encode(Metric metric, const std::vector<float>& vector,
                    std::vector<float>* row = nullptr) {
  return Encode(metric, DType::kF32, vector.data(), static_cast<std::uint32_t>(vector.size()), row);
}
std::string Refusal(Metric metric, const std::vector<float>& vector) {
  const absl::Status status = Encode(metric, vector);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(EncodeRow, RoundsFloatsToHalves) {
  std::vector<float> row;
  ASSERT_TRUE(Encode(Metric::kL2, {1.0f, 0.1f, -65504.0f, 2049.0f, 1e-7f}, &row).ok());
  EXPECT_EQ(row, (std::vector<float>{1.0f, 0.0999755859375f, -65504.0f, 2048.0f, 0x1p-23f}));
  const std::vector<Half> halves = {{0x3c00}, {0x0001}, {0xfbff}};
  ASSERT_TRUE(Encode(Metric::kL2, DType::kF16, halves.data(), 3, &row).ok());
  EXPECT_EQ(row, (std::vector<float>{1.0f, 0x1p-24f, -65504.0f})) << "as they are";
}

TEST(EncodeRow, NormalizesBeforeItRounds) {
  std::vector<float> row;
  for (const float scale : {1e-20f, 1.0f, 1e20f, 1e37f}) {
    ASSERT_TRUE(Encode(Metric::kCosine, {3 * scale, 4 * scale}, &row).ok()) << scale;
    EXPECT_EQ(row, (std::vector<float>{Half::Nearest(0.6f), Half::Nearest(0.8f)})) << scale;
  }
  ASSERT_TRUE(Encode(Metric::kCosine, {0, std::numeric_limits<float>::denorm_min()}, &row).ok());
  EXPECT_EQ(row, (std::vector<float>{0, 1}));
  const std::vector<Half> denormals = {{3}, {4}};
  ASSERT_TRUE(Encode(Metric::kCosine, DType::kF16, denormals.data(), 2, &row).ok());
  EXPECT_EQ(row, (std::vector<float>{Half::Nearest(0.6f), Half::Nearest(0.8f)}));
}

TEST(EncodeRow, RefusesWhatHalvesDoNotHold) {
  for (const Metric metric : {Metric::kL2, Metric::kInnerProduct}) {
    EXPECT_THAT(Refusal(metric, {1, 70000}),
                AllOf(HasSubstr("component 1"), HasSubstr("65504"), HasSubstr("70000")));
    EXPECT_THAT(Refusal(metric, {-65520}), HasSubstr("component 0"));
    EXPECT_TRUE(Encode(metric, {65519}).ok()) << "is nearest to 65504";
    EXPECT_THAT(Refusal(metric, {1e-20f, 1e-20f}), HasSubstr("found 1.41421e-20, too small"));
    EXPECT_THAT(Refusal(metric, {1e-6f, 2e-6f}), HasSubstr("too small"));
    EXPECT_TRUE(Encode(metric, {1e-3f, 1e-7f}).ok()) << "what is lost is little beside the norm";
    EXPECT_TRUE(Encode(metric, {0, 0}).ok());
  }
  EXPECT_THAT(Refusal(Metric::kCosine, {0, 0}), HasSubstr("zero vector"));
  for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine}) {
    EXPECT_THAT(Refusal(metric, {1, kInfinity}), AllOf(HasSubstr("component 1"), HasSubstr("Inf")));
    const Half infinite[] = {{0x3c00}, {0xfc00}}, nan[] = {{0x7c01}, {0}};
    EXPECT_THAT(std::string(Encode(metric, DType::kF16, infinite, 2).message()),
                AllOf(HasSubstr("component 1"), HasSubstr("-Inf")));
    EXPECT_THAT(std::string(Encode(metric, DType::kF16, nan, 2).message()),
                AllOf(HasSubstr("component 0"), HasSubstr("NaN")));
  }
}

TEST(EncodeRow, TakesNoOtherTypeForAnother) {
  const std::uint8_t bytes[8] = {};
  for (const DType from : {DType::kF32, DType::kU8, DType::kI8, DType::kF16}) {
    for (const DType to : {DType::kF32, DType::kU8, DType::kI8, DType::kF16}) {
      std::byte row[8];
      const absl::Status status = EncodeRow(*ChooseKernels(to, Metric::kL2, 2), from, bytes, row);
      EXPECT_EQ(status.ok(), from == to || (from == DType::kF32 && to == DType::kF16))
          << Name(from) << " to " << Name(to) << ": " << status;
    }
  }
}

/// However its norm is rounded, a vector is at distance 0 from itself.
TEST(Kernels, OfHalvesUnderCosineKeepNearVectorsApart) {
  const Kernels kernels = *ChooseKernels(DType::kF16, Metric::kCosine, 50);
  std::vector<std::byte> a(kernels.row_bytes), b(kernels.row_bytes);
  std::vector<float> vector(50);
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    for (std::uint32_t i = 0; i < 50; ++i)
      vector[i] = static_cast<float>((i * i * seed + 7 * i) % 97) - 40;
    ASSERT_TRUE(EncodeRow(kernels, vector.data(), a.data()).ok());
    double dot = 0, square = 0, other_square = 0;
    std::vector<float> other = vector;
    for (std::uint32_t i = 0; i < 50; ++i) {
      other[i] += static_cast<float>(i % 3) - 1;
      dot += static_cast<double>(vector[i]) * other[i];
      square += static_cast<double>(vector[i]) * vector[i];
      other_square += static_cast<double>(other[i]) * other[i];
    }
    ASSERT_TRUE(EncodeRow(kernels, other.data(), b.data()).ok());
    EXPECT_EQ(kernels.ToDistance(kernels.one(a.data(), a.data(), 50)), 0);
    const double cosine = 1 - dot / std::sqrt(square * other_square);
    EXPECT_NEAR(kernels.ToDistance(kernels.one(a.data(), b.data(), 50)), cosine, 0.02 * cosine);
  }
}

/// Distances between rows of halves are those of the numbers in them, to f32's precision.
TEST(Kernels, OfHalvesCountInFloats) {
  const Kernels kernels = *ChooseKernels(DType::kF16, Metric::kInnerProduct, 3);
  std::vector<std::byte> a(kernels.row_bytes), b(kernels.row_bytes);
  const float x[] = {60000, 1, 0.0001f}, y[] = {60000, 1, 1};
  ASSERT_TRUE(EncodeRow(kernels, x, a.data()).ok());
  ASSERT_TRUE(EncodeRow(kernels, y, b.data()).ok());
  EXPECT_EQ(kernels.ToDistance(kernels.one(a.data(), b.data(), 3)), -3.6e9f)
      << "far beyond what a half holds";
}

}  // namespace
}  // namespace hmann
