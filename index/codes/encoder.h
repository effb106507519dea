#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/distance.h"
#include "index/codes/kernel_table.h"
#include "index/codes/quantizer.h"
#include "index/codes/rotation.h"

namespace hmann {

/// Short codes that estimate a distance (the RaBitQ family: Gao & Long, SIGMOD 2024; Gao
/// et al., SIGMOD 2025), centered on a nearby vector. A code holds the residual of v to
/// its centroid, rotated at random and quantized to a few bits per dimension. Two factors
/// fold in everything that does not depend on the query. With r = v - centroid, rho =
/// |r|, o = P r / rho, x the code of o, and q' = P (query - mean):
///
///     estimate = c + A - B <q', x>          A = a + B <P (centroid - mean), x>
///
///          squared L2           -<q, v> and 1 - <q, v>
///     c    |q - centroid|^2     the centroid's distance
///     a    rho^2                -<centroid, r>
///     B    2 rho / <o, x>       rho / <o, x>
///
/// Cosine: all vectors are normalized. q' is rounded to 8 bits a component. The factors
/// share 32 bits (factors.h). A is computed from the rounded B, so the rounding of B
/// matters only in proportion to the query's distance from the centroid. A value;
/// immutable; thread-safe.
class Encoder {
 public:
  /// `kernels`: those of the index, whose stored rows are encoded. `bits`: per dimension,
  /// one of kCodeBits. `mean`: dim components in the space of the metric (under cosine:
  /// of normalized vectors), subtracted before the rotation. A wrong mean costs only
  /// precision. Errors: INVALID_ARGUMENT. The estimates run at the SIMD level of
  /// `kernels`; the bytes of a code do not depend on the level.
  static absl::StatusOr<Encoder> Make(const Kernels& kernels, std::uint32_t bits,
                                      std::uint64_t seed, std::vector<float> mean);

  /// Dimensions of a code: dim rounded up to a multiple of 8.
  std::uint32_t padded_dim() const { return rotation_.padded_dim(); }
  std::uint32_t code_bytes() const {
    return static_cast<std::uint32_t>(kFactorBytes) + bits_ * padded_dim() / 8;
  }

  /// Scratch of Encode; one per thread.
  struct Scratch {
    std::vector<float> centroid, rotated_centroid, residual, magnitudes;
    std::vector<std::uint8_t> levels;
  };
  /// Sets the stored row on which the following Encodes with this scratch are centered.
  void SetCentroid(const std::byte* centroid, Scratch& scratch) const;
  /// Writes code_bytes() bytes. `row`: a stored row; a row equal to the centroid gets a
  /// code of zeros.
  void Encode(const std::byte* row, std::byte* code, Scratch& scratch) const;
  /// SetCentroid and Encode in one call.
  void Encode(const std::byte* row, const std::byte* centroid, std::byte* code,
              Scratch& scratch) const {
    SetCentroid(centroid, scratch);
    Encode(row, code, scratch);
  }

 private:
  friend class CodeQuery;
  Encoder(const Kernels& kernels, const CodeKernels* code_kernels, std::uint32_t bits,
          std::uint64_t seed, std::vector<float> mean);

  Kernels kernels_;
  const CodeKernels* code_kernels_;
  std::uint32_t bits_;
  Rotation rotation_;
  std::vector<float> mean_;  ///< padded with zeros
  CodeSize code_size_;
};

/// A query prepared for many estimates. Keeps its memory; one per thread.
class CodeQuery {
 public:
  /// `query`: in stored form. The encoder need not outlive this.
  void Prepare(const Encoder& encoder, const std::byte* query);

  /// |query - centroid|^2, which the errors need. Under L2 it is centroid_distance
  /// itself, under cosine twice that; under inner product it takes more work.
  /// `centroid_distance`: from the exact kernel, as Kernels::ToDistance gives it.
  float SquaredGap(const std::byte* centroid, float centroid_distance) const;

  /// For a caller that knows a code long before it needs the estimate.
  void Prefetch(const std::byte* code) const;

  /// estimates[i] is what Kernels::ToDistance would give for the vector of codes[i],
  /// whose centroid is at distance centroid_distances[i] (from the exact kernel, same
  /// unit). Estimates are unbiased, so one may be lower than any possible distance.
  /// errors, when not nullptr: one standard deviation or a little more, same unit. Then
  /// inner product also needs squared_gaps[i] (see SquaredGap), which no other metric
  /// reads. Codes may lie anywhere, at any alignment; they are prefetched some way ahead.
  /// Any bytes give numbers: finite, at most FLT_MAX.
  void Estimate(const std::byte* const* codes, const float* centroid_distances, std::size_t n,
                float* estimates, float* errors, const float* squared_gaps = nullptr) const;

  /// The same for `n` consecutive codes of one centroid: a cell. squared_gap: as
  /// SquaredGap gives it; read only if errors is not nullptr.
  void EstimateCell(const std::byte* codes, std::size_t n, float centroid_distance,
                    float* estimates, float* errors, float squared_gap = 0) const;

 private:
  template <bool kOneCentroid>
  void Finish(const std::uint32_t* factors, const std::int32_t* dots,
              const float* centroid_distances, const float* gaps, std::size_t n, float* estimates,
              float* errors) const;

  Kernels kernels_;
  GatheredDots gathered_ = nullptr;
  StridedDots strided_ = nullptr;
  std::uint32_t padded_dim_ = 0;
  std::uint32_t code_bytes_ = 0;
  std::vector<float> rotated_;
  std::vector<std::int8_t> components_;
  std::vector<QueryBlock> blocks_;
  float unit_ = 0;  ///< <q', x> = unit_ * (2 dot - offset_)
  std::int32_t offset_ = 0;
  float squared_norm_ = 0;       ///< of the query; under inner product
  float gap_factor_ = 0;         ///< from the gaps passed to Finish to |q - centroid|^2, times
                                 ///< the squared CodeSize::across
  float rounding_variance_ = 0;  ///< of <q', x> because q' is rounded
};

}  // namespace hmann
