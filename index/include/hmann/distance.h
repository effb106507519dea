#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/types.h"

namespace hmann {

/// Bytes of a component.
constexpr std::size_t SizeOf(DType dtype) {
  return dtype == DType::kF32 ? 4 : dtype == DType::kF16 ? 2 : 1;
}
/// What queries of vectors of `dtype` are given in: f16 is how rows are stored, and its
/// queries are f32.
constexpr DType QueryType(DType dtype) { return dtype == DType::kF16 ? DType::kF32 : dtype; }
/// Whether EncodeRow makes rows of `to` out of vectors of `from`: of its own, and f16 out
/// of f32.
constexpr bool Encodes(DType from, DType to) {
  return from == to || (from == DType::kF32 && to == DType::kF16);
}
std::string_view Name(DType dtype);    ///< "f32", "u8", "i8", "f16"
std::string_view Name(Metric metric);  ///< "l2", "ip", "cosine"
absl::StatusOr<DType> ParseDType(std::string_view name);
absl::StatusOr<Metric> ParseMetric(std::string_view name);

/// Largest dimension: the u8 squared distance of 2^15 components still fits 31 bits.
constexpr std::uint32_t kMaxDim = 32768;

/// The distance functions of one (dtype, metric, dim) at one instruction-set level.
///
/// A *row* is a vector in stored form (see EncodeRow): dim components, and for u8/i8
/// under cosine 1/|v| as f32 at the next multiple of 4 bytes. Queries are rows too. Rows
/// need no alignment; 64 bytes is fastest. `many`: out[i] = one(query, rows[i]) for i <
/// n, each bit-equal to `one`. `many` issues no prefetch: the caller, who knows the rows
/// of a batch first, prefetches PrefetchBytes of each and then calls. `block` compares
/// all with all: out[i * stride + j] = one(a[i], b[j]) to the bit, for rows that lie in a
/// cache; what is loaded of a row serves several of the other side. Integers are summed
/// as integers, f32 and f16 in f32; these sums differ between levels within the bound
/// stated in reference.h.
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
  std::uint32_t row_bytes = 0;  ///< bytes of one row, padding to the tier's granule not included
  std::string_view simd;        ///< level that runs: "scalar", "avx2", "avx512", "neon"

  /// Squared L2; negative inner product; 1 - cosine, clamped to [0, 2].
  float ToDistance(DistanceKey key) const {
    if (!IsFloat(dtype) && metric != Metric::kCosine)
      return static_cast<float>(static_cast<std::int32_t>(key ^ 0x80000000u));
    return std::bit_cast<float>((key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key);
  }
  /// The key whose distance is nearest to `distance`; ascends with it.
  DistanceKey ToKey(float distance) const;
};

/// How much of a row is worth a prefetch: all of it, up to a page, since lines go to the
/// second-level cache (see prefetch.h) and do not keep each other waiting there. Pool
/// walk in DRAM on Zen 4, 60,000 x 784 u8, us of CPU a query with 128, 256, 512 bytes and
/// whole rows: 27, 26, 26, 17; with four queries in flight 27, 25, 24, 16. Prefetches
/// inside `many`, 8 rows ahead, gained nothing and cost up to 8 % in L1.
constexpr std::size_t PrefetchBytes(const Kernels& kernels) {
  return kernels.row_bytes < 4096 ? kernels.row_bytes : 4096;
}

/// Chooses the best level that this CPU and its operating system support, or the one that
/// HMANN_SIMD names. Errors: INVALID_ARGUMENT for dim 0 or above kMaxDim, or an unknown
/// or unsupported HMANN_SIMD.
absl::StatusOr<Kernels> ChooseKernels(DType dtype, Metric metric, std::uint32_t dim);

/// The level that ChooseKernels takes: "avx512", "avx2", "neon" or "scalar"; the same
/// errors. `HMANN_SIMD` is read at each call of either, so that tests may set it.
absl::StatusOr<std::string_view> ChosenSimd();

/// Writes the stored form of `vector` (dim components of type `from`, unaligned) to `row`
/// (kernels.row_bytes): copied; f32 and f16 under cosine are normalised; to f16 each
/// component is rounded once, at the end, to the nearest half (of two the even one);
/// u8/i8 under cosine get 1/|v| appended. `from`: as Encodes says. Errors:
/// INVALID_ARGUMENT naming the component for NaN or Inf, or for a number beyond what f16
/// holds; for a vector that f16 would keep to less than 1 / 256 of its norm (it lies
/// among the denormals: such numbers want to be scaled); for an f32 vector under L2 or
/// inner product whose squared norm is above FLT_MAX / 4, since its distances could
/// overflow; for a zero vector under cosine. `row` is then unspecified.
absl::Status EncodeRow(const Kernels& kernels, DType from, const void* vector, std::byte* row);
/// Of a query: `vector` has components of QueryType(kernels.dtype).
absl::Status EncodeRow(const Kernels& kernels, const void* vector, std::byte* row);

/// The components of a vector, or of a stored row, as f32, exactly. `vector`: dim of
/// `dtype`, unaligned.
void ReadComponents(DType dtype, const std::byte* vector, std::uint32_t dim, float* out);

}  // namespace hmann
