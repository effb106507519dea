#include "index/codes/rotation.h"

#include <bit>
#include <cmath>

#include "index/base/check.h"
#include "index/base/random.h"

namespace hmann {
namespace {

constexpr std::uint32_t kRounds = 3;
constexpr std::uint32_t kLanes = 8;

/// The last three stages of the transform.
inline void Transform8(float* v) {
  float a[kLanes], b[kLanes];
  for (std::uint32_t i = 0; i < 4; ++i) a[i] = v[i] + v[i + 4], a[i + 4] = v[i] - v[i + 4];
  for (std::uint32_t i = 0; i < kLanes; i += 4) {
    b[i] = a[i] + a[i + 2], b[i + 1] = a[i + 1] + a[i + 3];
    b[i + 2] = a[i] - a[i + 2], b[i + 3] = a[i + 1] - a[i + 3];
  }
  for (std::uint32_t i = 0; i < kLanes; i += 2) v[i] = b[i] + b[i + 1], v[i + 1] = b[i] - b[i + 1];
}

/// Hadamard transform without its factor; `n`: a power of two, at least 8.
void Transform(float* v, std::uint32_t n) {
  for (std::uint32_t half = n / 2; half >= kLanes; half /= 2) {
    for (std::uint32_t begin = 0; begin < n; begin += 2 * half) {
      float* low = v + begin;
      float* high = low + half;
      for (std::uint32_t j = 0; j < half; j += kLanes) {
        float sum[kLanes], difference[kLanes];
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
          sum[lane] = low[j + lane] + high[j + lane];
          difference[lane] = low[j + lane] - high[j + lane];
        }
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) low[j + lane] = sum[lane];
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) high[j + lane] = difference[lane];
      }
    }
  }
  for (std::uint32_t begin = 0; begin < n; begin += kLanes) Transform8(v + begin);
}

void MixHalves(float* v, std::uint32_t half) {
  constexpr float kSqrtHalf = 0.70710678f;
  for (std::uint32_t i = 0; i < half; ++i) {
    const float a = v[i], b = v[i + half];
    v[i] = (a + b) * kSqrtHalf;
    v[i + half] = (a - b) * kSqrtHalf;
  }
}

}  // namespace

Rotation::Rotation(std::uint32_t dim, std::uint64_t seed)
    : padded_dim_((dim + 7) / 8 * 8), segment_(std::bit_floor(padded_dim_)) {
  HMANN_CHECK(dim > 0);
  const std::uint32_t transforms = segment_ == padded_dim_ ? kRounds : 2 * kRounds;
  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(segment_)));
  factors_.resize(std::size_t{transforms} * padded_dim_);
  for (std::uint32_t t = 0; t < transforms; ++t) {
    const std::uint32_t begin = t % 2 == 1 && segment_ != padded_dim_ ? padded_dim_ - segment_ : 0;
    for (std::uint32_t i = 0; i < padded_dim_; ++i) {
      const std::size_t at = std::size_t{t} * padded_dim_ + i;
      const float sign = Random(seed, at) >> 63 ? -1.0f : 1.0f;
      factors_[at] = i >= begin && i < begin + segment_ ? sign * scale : sign;
    }
  }
}

void Rotation::Apply(float* vector) const {
  const float* factor = factors_.data();
  const auto step = [&](std::uint32_t begin) {
    for (std::uint32_t i = 0; i < padded_dim_; ++i) vector[i] *= factor[i];
    Transform(vector + begin, segment_);
    factor += padded_dim_;
  };
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    step(0);
    if (segment_ == padded_dim_) continue;
    step(padded_dim_ - segment_);
    MixHalves(vector, padded_dim_ / 2);
  }
}

}  // namespace hmann
