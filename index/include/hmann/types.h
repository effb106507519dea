#pragma once

#include <cstdint>

namespace hmann {

enum class DType : std::uint8_t { kF32 = 0, kU8 = 1, kI8 = 2, kF16 = 3 };
enum class Metric : std::uint8_t { kL2 = 0, kInnerProduct = 1, kCosine = 2 };

/// Whether distances are sums of f32 values, which round.
constexpr bool IsFloat(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16; }

/// An order-preserving code of a distance: nearer is smaller, and equal distances have
/// equal keys. For u8 and i8 under L2 and inner product it holds the exact integer,
/// otherwise the bits of the float. Kernels::ToDistance converts it to the distance that
/// users see.
using DistanceKey = std::uint32_t;

}  // namespace hmann
