#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "index/distance/distance.h"

namespace hmann {
namespace {

/// (|a| + |b|)^2 stays finite for any two rows below this, so that no distance overflows.
constexpr double kMaxSquaredNorm = std::numeric_limits<float>::max() / 4.0;

absl::Status EncodeF32(const Kernels& kernels, const void* vector, std::byte* row) {
  std::memcpy(row, vector, kernels.dim * sizeof(float));
  double squared_norm = 0;
  for (std::uint32_t i = 0; i < kernels.dim; ++i) {
    float x;
    std::memcpy(&x, row + i * sizeof(float), sizeof(float));
    if (!std::isfinite(x)) {
      return absl::InvalidArgumentError(absl::StrCat("component ", i,
                                                     ": expected a finite number; found ",
                                                     std::isnan(x) ? "NaN"
                                                     : x > 0       ? "Inf"
                                                                   : "-Inf"));
    }
    squared_norm += static_cast<double>(x) * x;
  }
  if (kernels.metric != Metric::kCosine) {
    if (squared_norm <= kMaxSquaredNorm) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("squared norm: expected at most ", kMaxSquaredNorm,
                     ", so that f32 distances do not overflow; found ", squared_norm));
  }
  if (squared_norm == 0)
    return absl::InvalidArgumentError("zero vector: it has no direction, so cosine is undefined");
  const double inverse_norm = 1.0 / std::sqrt(squared_norm);
  for (std::uint32_t i = 0; i < kernels.dim; ++i) {
    float x;
    std::memcpy(&x, row + i * sizeof(float), sizeof(float));
    x = static_cast<float>(x * inverse_norm);
    std::memcpy(row + i * sizeof(float), &x, sizeof(float));
  }
  return absl::OkStatus();
}

template <class Component>
absl::Status EncodeBytes(const Kernels& kernels, const void* vector, std::byte* row) {
  std::memcpy(row, vector, kernels.dim);
  if (kernels.metric != Metric::kCosine) return absl::OkStatus();
  const auto* components = static_cast<const Component*>(vector);
  std::int64_t squared_norm = 0;
  for (std::uint32_t i = 0; i < kernels.dim; ++i)
    squared_norm += std::int32_t{components[i]} * components[i];
  if (squared_norm == 0)
    return absl::InvalidArgumentError("zero vector: it has no direction, so cosine is undefined");
  const float inverse_norm = static_cast<float>(1.0 / std::sqrt(static_cast<double>(squared_norm)));
  const std::size_t at = kernels.row_bytes - sizeof(float);
  std::memset(row + kernels.dim, 0, at - kernels.dim);
  std::memcpy(row + at, &inverse_norm, sizeof(float));
  return absl::OkStatus();
}

}  // namespace

DistanceKey Kernels::ToKey(float distance) const {
  if (dtype != DType::kF32 && metric != Metric::kCosine) {
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
  switch (kernels.dtype) {
    case DType::kF32:
      return EncodeF32(kernels, vector, row);
    case DType::kU8:
      return EncodeBytes<std::uint8_t>(kernels, vector, row);
    case DType::kI8:
      return EncodeBytes<std::int8_t>(kernels, vector, row);
  }
  return absl::InternalError("unknown dtype");
}

}  // namespace hmann
