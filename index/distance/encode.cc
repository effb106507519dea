#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <type_traits>

#include "hmann/distance.h"
#include "index/base/status_macros.h"
#include "index/distance/check_norm.h"
#include "index/distance/half.h"

namespace hmann {
namespace {

/// (|a| + |b|)^2 stays finite for any two rows below this, so that no distance overflows.
constexpr double kMaxSquaredNorm = std::numeric_limits<float>::max() / 4.0;

/// The most that rounding may take from a vector, as a share of its norm. Halves that are
/// not denormal lose at most 1 / 2048.
constexpr double kMostLost = 1.0 / 256;

/// How far from 1 the squared norm of a stored row can be, which was divided by its norm.
/// Rounding changes a component, and so the norm, by at most 2^-24 of it (f16: 2^-11),
/// and the square by twice as much. The last half percent is for sums of such changes and
/// for denormals.
template <class Component>
constexpr double kMostOfUnit = 2.01 * (std::is_same_v<Component, Half> ? 0x1p-11 : 0x1p-24);

template <class Component>
Component At(const void* vector, std::uint32_t i) {
  Component component;
  std::memcpy(&component, static_cast<const std::byte*>(vector) + i * sizeof(component),
              sizeof(component));
  return component;
}

/// The squared norm of a vector whose components are all finite. Partial sums are added
/// side by side; one sum after the other took 2 % of a query of 512 dimensions.
template <class Component>
absl::StatusOr<double> SquaredNorm(const Kernels& kernels, const void* vector) {
  constexpr std::uint32_t kSums = 8;
  double sums[kSums] = {};
  for (std::uint32_t i = 0; i + kSums <= kernels.dim; i += kSums) {
    for (std::uint32_t j = 0; j < kSums; ++j) {
      const auto x = static_cast<double>(static_cast<float>(At<Component>(vector, i + j)));
      sums[j] += x * x;
    }
  }
  for (std::uint32_t i = kernels.dim / kSums * kSums; i < kernels.dim; ++i) {
    const auto x = static_cast<double>(static_cast<float>(At<Component>(vector, i)));
    sums[i % kSums] += x * x;
  }
  const double sum = std::accumulate(std::begin(sums), std::end(sums), 0.0);
  if (std::isfinite(sum)) {
    HMANN_RETURN_IF_ERROR(CheckNorm(kernels.metric, sum));
    return sum;
  }
  std::uint32_t i = 0;
  while (std::isfinite(static_cast<float>(At<Component>(vector, i)))) ++i;
  const float x = At<Component>(vector, i);
  return InvalidArgument("component ", i, ": expected a finite number; found ",
                         std::isnan(x) ? "NaN"
                         : x > 0       ? "Inf"
                                       : "-Inf");
}

template <class From, class To>
absl::Status EncodeFloats(const Kernels& kernels, const void* vector, std::byte* row) {
  const bool cosine = kernels.metric == Metric::kCosine;
  HMANN_ASSIGN_OR_RETURN(const double squared_norm, SquaredNorm<From>(kernels, vector));
  if constexpr (std::is_same_v<From, To>) {
    if (!cosine || std::abs(squared_norm - 1) <= kMostOfUnit<To>) {
      std::memcpy(row, vector, kernels.dim * sizeof(To));
      return absl::OkStatus();
    }
  }
  const double scale = cosine ? 1.0 / std::sqrt(squared_norm) : 1;
  double lost = 0;
  for (std::uint32_t i = 0; i < kernels.dim; ++i) {
    const auto x = static_cast<float>(At<From>(vector, i) * scale);
    To stored;
    if constexpr (std::is_same_v<To, Half>) {
      stored = Half::Nearest(x);
      const float kept = stored;
      if (!std::isfinite(kept)) {
        return InvalidArgument("component ", i, ": expected at most ", kLargestHalf,
                               " for f16; found ", x);
      }
      lost += static_cast<double>(x - kept) * (x - kept);
    } else {
      stored = x;
    }
    std::memcpy(row + i * sizeof(To), &stored, sizeof(To));
  }
  if (lost <= kMostLost * kMostLost * squared_norm * scale * scale) return absl::OkStatus();
  return InvalidArgument("norm: expected numbers that f16 keeps to 1 / 256 of it; found ",
                         std::sqrt(squared_norm), ", too small: scale the vectors, or keep f32");
}

template <class Component>
absl::Status EncodeBytes(const Kernels& kernels, const void* vector, std::byte* row) {
  std::memcpy(row, vector, kernels.dim);
  if (kernels.metric != Metric::kCosine) return absl::OkStatus();
  const auto* components = static_cast<const Component*>(vector);
  double squared_norm = 0;
  for (std::uint32_t i = 0; i < kernels.dim; ++i)
    squared_norm += std::int32_t{components[i]} * components[i];
  HMANN_RETURN_IF_ERROR(CheckNorm(kernels.metric, squared_norm));
  const auto inverse_norm = static_cast<float>(1.0 / std::sqrt(squared_norm));
  const std::size_t at = kernels.row_bytes - sizeof(float);
  std::memset(row + kernels.dim, 0, at - kernels.dim);
  std::memcpy(row + at, &inverse_norm, sizeof(float));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNorm(Metric metric, double squared_norm) {
  if (metric == Metric::kCosine) {
    if (squared_norm > 0) return absl::OkStatus();
    return InvalidArgument("zero vector: it has no direction: leave it out, or take the metric l2");
  }
  if (!(squared_norm <= kMaxSquaredNorm)) {
    return InvalidArgument("squared norm: expected at most ", kMaxSquaredNorm,
                           ", so that f32 distances do not overflow; found ", squared_norm);
  }
  return absl::OkStatus();
}

DistanceKey Kernels::ToKey(float distance) const {
  if (!IsFloat(dtype) && metric != Metric::kCosine) {
    constexpr float kLeast = -2147483648.0f, kMost = 2147483520.0f;  // the float below 2^31
    const auto whole =
        static_cast<std::int32_t>(std::nearbyint(std::clamp(distance, kLeast, kMost)));
    return static_cast<std::uint32_t>(whole) ^ 0x80000000u;
  }
  std::uint32_t bits;
  std::memcpy(&bits, &distance, sizeof(bits));
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

absl::Status EncodeRow(const Kernels& kernels, const void* vector, std::byte* row) {
  return EncodeRow(kernels, QueryType(kernels.dtype), vector, row);
}

absl::Status EncodeRow(const Kernels& kernels, DType from, const void* vector, std::byte* row) {
  if (!Encodes(from, kernels.dtype)) {
    return InvalidArgument("a vector of ", std::string(Name(kernels.dtype)), ": cannot be made of ",
                           std::string(Name(from)));
  }
  switch (kernels.dtype) {
    case DType::kF32:
      return EncodeFloats<float, float>(kernels, vector, row);
    case DType::kF16:
      return from == DType::kF32 ? EncodeFloats<float, Half>(kernels, vector, row)
                                 : EncodeFloats<Half, Half>(kernels, vector, row);
    case DType::kU8:
      return EncodeBytes<std::uint8_t>(kernels, vector, row);
    case DType::kI8:
      return EncodeBytes<std::int8_t>(kernels, vector, row);
  }
  return Internal("unknown dtype");
}

namespace {

template <class Component>
void Widen(const std::byte* vector, std::uint32_t dim, float* out) {
  for (std::uint32_t i = 0; i < dim; ++i) out[i] = At<Component>(vector, i);
}

}  // namespace

void ReadComponents(DType dtype, const std::byte* vector, std::uint32_t dim, float* out) {
  switch (dtype) {
    case DType::kF32:
      return Widen<float>(vector, dim, out);
    case DType::kF16:
      return Widen<Half>(vector, dim, out);
    case DType::kU8:
      return Widen<std::uint8_t>(vector, dim, out);
    case DType::kI8:
      return Widen<std::int8_t>(vector, dim, out);
  }
}

}  // namespace hmann
