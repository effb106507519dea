#include "index/codes/rotation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "index/base/random.h"

namespace hmann {
namespace {

constexpr std::uint32_t kDims[] = {1, 2, 3, 7, 8, 9, 96, 100, 128, 129, 248, 784, 1536};

std::vector<float> RandomVector(std::uint32_t dim, std::uint32_t padded_dim, std::uint64_t seed) {
  std::vector<float> vector(padded_dim);
  for (std::uint32_t i = 0; i < dim; ++i) vector[i] = static_cast<float>(RandomUnit(seed, i) - 0.5);
  return vector;
}

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

TEST(Rotation, RoundsTheDimensionUpToAMultipleOfEight) {
  EXPECT_EQ(Rotation(1, 0).padded_dim(), 8u);
  EXPECT_EQ(Rotation(8, 0).padded_dim(), 8u);
  EXPECT_EQ(Rotation(100, 0).padded_dim(), 104u);
  EXPECT_EQ(Rotation(784, 0).padded_dim(), 784u);
}

TEST(Rotation, KeepsInnerProductsToFloatPrecision) {
  for (const std::uint32_t dim : kDims) {
    const Rotation rotation(dim, 5);
    for (std::uint64_t seed = 0; seed < 20; seed += 2) {
      std::vector<float> a = RandomVector(dim, rotation.padded_dim(), seed),
                         b = RandomVector(dim, rotation.padded_dim(), seed + 1);
      const double aa = Dot(a, a), ab = Dot(a, b), bb = Dot(b, b);
      rotation.Apply(a.data());
      rotation.Apply(b.data());
      EXPECT_NEAR(Dot(a, a), aa, 2e-6 * aa) << dim;
      EXPECT_NEAR(Dot(a, b), ab, 2e-6 * std::sqrt(aa * bb)) << dim;
    }
  }
}

TEST(Rotation, SpreadsEveryAxis) {
  for (const std::uint32_t dim : {96u, 100u, 128u, 129u, 248u, 784u, 1536u}) {
    const Rotation rotation(dim, 6);
    float largest = 0;
    for (std::uint32_t axis = 0; axis < dim; ++axis) {
      std::vector<float> vector(rotation.padded_dim());
      vector[axis] = 1;
      rotation.Apply(vector.data());
      for (const float x : vector) largest = std::max(largest, std::fabs(x));
    }
    // The largest of D^2 normal components. An axis that stayed in one half of the vector
    // would be larger by a factor.
    EXPECT_LT(largest, 1.4 * std::sqrt(2 * std::log(2.0 * dim * dim) / dim)) << dim;
  }
}

TEST(Rotation, FollowsItsSeed) {
  std::vector<float> a = RandomVector(100, 104, 1), b = a, c = a;
  Rotation(100, 1).Apply(a.data());
  Rotation(100, 1).Apply(b.data());
  Rotation(100, 2).Apply(c.data());
  EXPECT_EQ(a, b);
  EXPECT_LT(std::fabs(Dot(a, c)), 0.5 * Dot(a, a));
}

}  // namespace
}  // namespace hmann
