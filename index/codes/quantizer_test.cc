#include "index/codes/quantizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "index/base/random.h"
#include "index/codes/factors.h"

namespace hmann {
namespace {

std::vector<float> RandomUnitVector(std::size_t dim, std::uint64_t seed) {
  std::vector<float> unit(dim);
  double squared_norm = 0;
  for (std::size_t i = 0; i < dim; ++i) {
    double normal = -6;
    for (std::size_t k = 0; k < 12; ++k) normal += RandomUnit(seed, i * 12 + k);
    unit[i] = static_cast<float>(normal);
    squared_norm += normal * normal;
  }
  for (float& component : unit) component /= static_cast<float>(std::sqrt(squared_norm));
  return unit;
}

/// The best cosine over all t, tried at every t where a component changes.
double BestCosine(const std::vector<float>& unit, unsigned bits) {
  const int most = (1 << (bits - 1)) - 1;
  std::vector<std::pair<double, double>> events;  // t, |o_i|
  double dot = 0, squared_norm = static_cast<double>(unit.size()) / 4;
  for (const float component : unit) {
    const double a = std::fabs(component);
    dot += a / 2;
    for (int m = 1; m <= most && a > 0; ++m) events.push_back({m / a, a});
  }
  std::sort(events.begin(), events.end());
  double best = dot / std::sqrt(squared_norm);
  for (const auto& [t, a] : events) {
    dot += a;
    squared_norm += 2 * std::round(t * a);  // (m + 1/2)^2 - (m - 1/2)^2
    best = std::max(best, dot / std::sqrt(squared_norm));
  }
  return best;
}

struct Code {
  std::vector<std::uint8_t> levels;
  Quantization quantized;
};

Code QuantizeVector(const std::vector<float>& unit, unsigned bits) {
  Code code{std::vector<std::uint8_t>(unit.size()), {}};
  std::vector<float> magnitudes(unit.size());
  code.quantized = Quantize(unit.data(), unit.size(), bits, magnitudes.data(), code.levels.data());
  return code;
}

TEST(Quantize, SaysWhatItsLevelsAre) {
  for (const unsigned bits : kCodeBits) {
    for (const std::size_t dim : {8u, 104u, 128u, 784u}) {
      const std::vector<float> unit = RandomUnitVector(dim, bits);
      const Code code = QuantizeVector(unit, bits);
      double dot = 0, squared_norm = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        ASSERT_LT(code.levels[i], 1u << bits);
        const double x = code.levels[i] - ((1 << bits) - 1) / 2.0;
        EXPECT_EQ(x < 0, unit[i] < 0);
        dot += x * static_cast<double>(unit[i]);
        squared_norm += x * x;
      }
      EXPECT_NEAR(code.quantized.dot, dot, 1e-5 * dot);
      EXPECT_NEAR(code.quantized.squared_norm, squared_norm, 1e-5 * squared_norm);
      EXPECT_NEAR(DotWithLevels(unit.data(), code.levels.data(), dim, bits), dot, 1e-5 * dot);
    }
  }
}

TEST(Quantize, ComesCloseToTheBestCosine) {
  for (const unsigned bits : kCodeBits) {
    double ours = 0, best = 0;  // sums of tan^2, which the error follows
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      const std::vector<float> unit = RandomUnitVector(128, seed);
      const Quantization code = QuantizeVector(unit, bits).quantized;
      const double found = code.dot / std::sqrt(static_cast<double>(code.squared_norm)),
                   sought = BestCosine(unit, bits);
      EXPECT_LE(found, sought + 1e-6);
      EXPECT_GT(found, sought - 0.004) << "bits " << bits << " seed " << seed;
      ours += 1 / (found * found) - 1;
      best += 1 / (sought * sought) - 1;
    }
    RecordProperty("tan2_over_best_" + std::to_string(bits), std::to_string(ours / best));
    EXPECT_LT(ours, 1.02 * best) << "bits " << bits;
  }
}

TEST(Quantize, AnAxisIsNoSpecialCase) {
  for (const unsigned bits : kCodeBits) {
    std::vector<float> unit(16);
    unit[3] = -1;
    const Code code = QuantizeVector(unit, bits);
    EXPECT_GT(code.quantized.dot, 0);
    EXPECT_EQ(code.levels[3], 0);
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(code.levels[i], i == 3 ? 0 : 1 << (bits - 1));
  }
}

TEST(Layout, ByteKHoldsDimensionsAStrideApart) {
  for (const unsigned bits : kCodeBits) {
    const unsigned mask = (1u << bits) - 1;
    std::vector<std::uint8_t> levels(136);
    for (std::size_t i = 0; i < levels.size(); ++i)
      levels[i] = static_cast<std::uint8_t>(i * 7 & mask);
    std::vector<std::byte> code(17 * bits);
    PackLevels(levels.data(), 136, bits, code.data());
    const auto level = [&](std::size_t byte, std::size_t field) {
      return std::to_integer<unsigned>(code[byte]) >> (field * bits) & mask;
    };
    for (std::size_t field = 0; field < 8 / bits;
         ++field) {  // a block of 128 dimensions and one of 8
      for (std::size_t k = 0; k < 16 * bits; ++k)
        EXPECT_EQ(level(k, field), levels[field * 16 * bits + k]) << bits;
      for (std::size_t k = 0; k < bits; ++k)
        EXPECT_EQ(level(16 * bits + k, field), levels[128 + field * bits + k]) << bits;
    }
  }
}

TEST(Layout, QueryHasZerosWhereABlockEnds) {
  std::vector<std::int8_t> query(24, 5);
  std::vector<QueryBlock> blocks;
  LayOutQuery(query.data(), 24, 2, blocks);
  ASSERT_EQ(blocks.size(), 1u);
  for (std::size_t i = 0; i < kBlockDims; ++i)
    EXPECT_EQ(blocks[0].components[i], i % 32 < 6 ? 5 : 0);
}

TEST(FactorsOfACode, RoundToTheirBits) {
  for (const float x : {1.0f, 3.14159f, 1e-20f, 123456.7f, 1e30f}) {
    const Factors positive = UnpackFactors(PackFactors({x, x})),
                  negative = UnpackFactors(PackFactors({-x, x}));
    EXPECT_NEAR(positive.a, x, x / 512);
    EXPECT_NEAR(positive.b, x, x / 256);
    EXPECT_EQ(negative.a, -positive.a);
    EXPECT_EQ(negative.b, positive.b);
    EXPECT_EQ(PackFactors(positive), PackFactors({x, x})) << "rounding twice is rounding once";
  }
  EXPECT_EQ(PackFactors({0, 0}), 0u);
}

TEST(FactorsOfACode, StayFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float x : {FLT_MAX, kInf, -kInf, std::nanf(""), -1.0f}) {
    const Factors factors = UnpackFactors(PackFactors({x, x}));
    EXPECT_TRUE(std::isfinite(factors.a)) << x;
    EXPECT_TRUE(std::isfinite(factors.b)) << x;
    EXPECT_GE(factors.b, 0) << x;
  }
}

}  // namespace
}  // namespace hmann
