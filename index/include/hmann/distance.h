#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/types.h"

namespace hmann {

/// Bytes per component.
constexpr std::size_t SizeOf(DType dtype) {
  return dtype == DType::kF32 ? 4 : dtype == DType::kF16 ? 2 : 1;
}
/// The type of queries for vectors of `dtype`. f16 is a storage type only: its queries
/// are f32.
constexpr DType QueryType(DType dtype) { return dtype == DType::kF16 ? DType::kF32 : dtype; }
/// Whether EncodeRow can encode vectors of type `from` as rows of type `to`: the same
/// type, or f32 as f16.
constexpr bool Encodes(DType from, DType to) {
  return from == to || (from == DType::kF32 && to == DType::kF16);
}
std::string_view Name(DType dtype);    ///< "f32", "u8", "i8", "f16"
std::string_view Name(Metric metric);  ///< "l2", "ip", "cosine"
absl::StatusOr<DType> ParseDType(std::string_view name);
absl::StatusOr<Metric> ParseMetric(std::string_view name);

/// Largest dimension: the u8 squared distance of 2^15 components still fits 31 bits.
constexpr std::uint32_t kMaxDim = 32768;

/// The distance functions for one (dtype, metric, dim) at one instruction-set level.
///
/// A *row* is a vector in stored form (see EncodeRow): dim components; for u8/i8 under
/// cosine, followed by 1/|v| as f32 at the next multiple of 4 bytes. Queries are rows
/// too. Rows need no alignment; 64 bytes is fastest.
///
/// - `many`: out[i] = one(query, rows[i]) for i < n, bit-equal to `one`. It issues no
///   prefetch: the caller knows the rows of a batch first, prefetches PrefetchBytes of
///   each, then calls.
/// - `block` compares all with all: out[i * stride + j] = one(a[i], b[j]), bit-equal, for
///   rows that are in cache. Each loaded part of a row is compared with several rows of
///   the other side.
///
/// Integers are summed as integers, f32 and f16 in f32. Sums of f32 differ between levels
/// within the bound stated in reference.h.
///
/// Thread safety: everything is const and pure.
struct Kernels {
  DistanceKey (*one)(const std::byte* query, const std::byte* row, std::size_t dim) = nullptr;
  void (*many)(const std::byte* query, const std::byte* const* rows, std::size_t n, std::size_t dim,
               DistanceKey* out) = nullptr;
  void (*block)(const std::byte* const* a, std::size_t na, const std::byte* const* b,
                std::size_t nb, std::size_t dim, DistanceKey* out, std::size_t stride) = nullptr;
  DType dtype = DType::kF32;
  Metric metric = Metric::kL2;
  std::uint32_t dim = 0;
  /// Bytes of one row, without padding to the tier's granule.
  std::uint32_t row_bytes = 0;
  /// Instruction-set level in use: "scalar", "avx2", "avx512", "neon".
  std::string_view simd;

  /// Squared L2; negative inner product; 1 - cosine, clamped to [0, 2].
  float ToDistance(DistanceKey key) const {
    if (!IsFloat(dtype) && metric != Metric::kCosine)
      return static_cast<float>(static_cast<std::int32_t>(key ^ 0x80000000u));
    return std::bit_cast<float>((key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key);
  }
  /// The key whose distance is nearest to `distance`. Keys ascend with distances.
  DistanceKey ToKey(float distance) const;
};

/// How many bytes of a row are worth prefetching: the whole row, up to a page. The lines
/// go to the second-level cache (see prefetch.h) and do not delay each other there.
///
/// Graph mode in DRAM on Zen 4, 60,000 x 784 u8, CPU us per query for 128, 256, 512 bytes
/// and whole rows: 27, 26, 26, 17; with four queries in flight: 27, 25, 24, 16.
/// Prefetches inside `many`, 8 rows ahead, gained nothing and cost up to 8 % in L1.
constexpr std::size_t PrefetchBytes(const Kernels& kernels) {
  return kernels.row_bytes < 4096 ? kernels.row_bytes : 4096;
}

/// Chooses the best level that the CPU and the operating system support, or the level
/// that HMANN_SIMD names. Errors: INVALID_ARGUMENT for dim 0 or above kMaxDim, or an
/// unknown or unsupported HMANN_SIMD.
absl::StatusOr<Kernels> ChooseKernels(DType dtype, Metric metric, std::uint32_t dim);

/// The level that ChooseKernels chooses: "avx512", "avx2", "neon" or "scalar"; same
/// errors. Both functions read `HMANN_SIMD` on every call, so that tests can set it.
absl::StatusOr<std::string_view> ChosenSimd();

/// Writes the stored form of `vector` (dim unaligned components of type `from`) to `row`
/// (kernels.row_bytes). `from` must satisfy Encodes.
///
/// - Components are copied. Under cosine, f32 and f16 vectors are normalized, unless the
///   norm is 1 but for rounding, so that the stored form of a stored row is that row.
/// - For f16, each component is rounded once, at the end, to nearest, ties to even.
/// - u8/i8 under cosine get 1/|v| appended.
///
/// Errors, after which `row` is unspecified: INVALID_ARGUMENT naming the component for
/// NaN, Inf or a value beyond the range of f16. INVALID_ARGUMENT also for:
///
/// - a vector that f16 would keep to less than 1 / 256 of its norm; its components are
///   among the denormals and should be scaled;
/// - a vector of floats under L2 or inner product with a squared norm above FLT_MAX / 4,
///   since its distances could overflow;
/// - a zero vector under cosine.
absl::Status EncodeRow(const Kernels& kernels, DType from, const void* vector, std::byte* row);
/// Encodes a query: `vector` has components of type QueryType(kernels.dtype).
absl::Status EncodeRow(const Kernels& kernels, const void* vector, std::byte* row);

/// Converts the components of a vector, or of a stored row, to f32, exactly. `vector`:
/// dim components of type `dtype`, unaligned.
void ReadComponents(DType dtype, const std::byte* vector, std::uint32_t dim, float* out);

}  // namespace hmann
