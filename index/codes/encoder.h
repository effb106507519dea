#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/distance.h"
#include "index/codes/kernel_table.h"
#include "index/codes/quantiser.h"
#include "index/codes/rotation.h"

namespace hmann {

/// Short codes that estimate a distance (the RaBitQ family: Gao & Long, SIGMOD 2024; Gao
/// et al., SIGMOD 2025), centred on a vector that is close by: the residual of v to its
/// centroid, rotated at random, quantised to a few bits per dimension, with two factors
/// that fold in all that does not depend on the query. With r = v - centroid, rho = |r|,
/// o = P r / rho, x the code of o, and q' = P (query - mean):
///
///     estimate = c + A - B <q', x>          A = a + B <P (centroid - mean), x>
///
///          squared L2           -<q, v> and 1 - <q, v>
///     c    |q - centroid|^2     the centroid's distance
///     a    rho^2                -<centroid, r>
///     B    2 rho / <o, x>       rho / <o, x>
///
/// Cosine: all vectors normalised. q' is rounded to 8 bits a component; the factors share
/// 32 bits (factors.h), and A is that of the rounded B, so that B's rounding counts only
/// as far as the query is from the centroid. A value; immutable; thread-safe.
class Encoder {
 public:
  /// `kernels`: of the index; what is encoded are its stored rows. `bits`: per dimension,
  /// of kCodeBits. `mean`: dim components in the space that the metric works in (under
  /// cosine: of normalised vectors), subtracted before the rotation; it costs nothing
  /// where it is wrong but precision. Errors: INVALID_ARGUMENT. The estimates run at the
  /// level of `kernels`; a code's bytes depend on no level.
  static absl::StatusOr<Encoder> Make(const Kernels& kernels, std::uint32_t bits,
                                      std::uint64_t seed, std::vector<float> mean);

  /// Dimensions that a code has: dim rounded up to a multiple of 8.
  std::uint32_t padded_dim() const { return rotation_.padded_dim(); }
  std::uint32_t code_bytes() const {
    return static_cast<std::uint32_t>(kFactorBytes) + bits_ * padded_dim() / 8;
  }

  /// Scratch of Encode; one per thread.
  struct Scratch {
    std::vector<float> centroid, rotated_centroid, residual, magnitudes;
    std::vector<std::uint8_t> levels;
  };
  /// What the following Encodes with this scratch are centred on: a stored row.
  void SetCentroid(const std::byte* centroid, Scratch& scratch) const;
  /// Writes code_bytes() bytes. `row`: a stored row; one equal to the centroid gets a
  /// code of zeros.
  void Encode(const std::byte* row, std::byte* code, Scratch& scratch) const;
  /// Both.
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
  std::vector<float> mean_;  ///< continued with zeros
  CodeSize code_size_;
};

/// A query made ready for many estimates. Keeps its memory; one per thread.
class CodeQuery {
 public:
  /// `query`: in stored form. The encoder need not outlive this.
  void Prepare(const Encoder& encoder, const std::byte* query);

  /// The square of |query - centroid|, which errors need: centroid_distance itself under
  /// L2, twice it under cosine, and more work under inner product. `centroid_distance`:
  /// of the exact kernel, as Kernels::ToDistance gives it.
  float SquaredGap(const std::byte* centroid, float centroid_distance) const;

  /// For a caller who knows a code long before it asks for the estimate.
  void Prefetch(const std::byte* code) const;

  /// estimates[i] = what Kernels::ToDistance would give for the vector of codes[i], whose
  /// centroid is at distance centroid_distances[i] (from the exact kernel, same unit).
  /// Unbiased, so an estimate may lie below what a distance can be. errors, when not
  /// nullptr: one standard deviation or a little more, same unit; squared_gaps[i] (see
  /// SquaredGap) is then needed under inner product, and not read elsewhere. Codes may
  /// lie anywhere, at any alignment: they are prefetched some way ahead. Any bytes give
  /// numbers: finite, at most FLT_MAX.
  void Estimate(const std::byte* const* codes, const float* centroid_distances, std::size_t n,
                float* estimates, float* errors, const float* squared_gaps = nullptr) const;

  /// The same for `n` codes that follow each other, all of one centroid: a cell.
  /// squared_gap: as SquaredGap gives it; read if errors are asked for.
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
  float squared_norm_ = 0;  ///< of the query; under inner product
  float gap_factor_ = 0;    ///< from what Finish is given as gaps to |q - centroid|^2, times the
                            ///< squared CodeSize::across
  float rounding_variance_ = 0;  ///< of <q', x> because q' is rounded
};

}  // namespace hmann
