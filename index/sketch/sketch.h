#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "index/distance/distance.h"
#include "index/sketch/kernel_table.h"
#include "index/sketch/quantiser.h"
#include "index/sketch/rotation.h"

namespace hmann {

/// Short codes that estimate a distance (the RaBitQ family: Gao & Long, SIGMOD 2024; Gao et al., SIGMOD 2025), centred on a vector that is
/// close by: the residual of v to its hub, rotated at random, quantised to a few bits per dimension, with two factors that fold in all that
/// does not depend on the query. With r = v - hub, rho = |r|, o = P r / rho, x the code of o, and q' = P (query - mean):
///
///     squared L2                 |q - hub|^2 + A - B <q', x>      B = 2 rho / <o, x>      A = rho^2 + B <P (hub - mean), x>
///     -<q, v> and 1 - <q, v>     the hub's   + A - B <q', x>      B = rho / <o, x>        A = -<hub, r> + B <P (hub - mean), x>
///
/// Cosine: all vectors normalised. q' is rounded to 8 bits a component; the factors share 32 bits (factors.h), and A is that of the rounded
/// B, so that B's rounding counts only as far as the query is from the hub. A value; immutable; thread-safe.
class Sketcher {
 public:
  /// `kernels`: of the index; what is encoded are its stored rows. `bits`: 1 to 4 per dimension. `mean`: dim components in the space that
  /// the metric works in (under cosine: of normalised vectors), subtracted before the rotation; it costs nothing where it is wrong but
  /// precision. Errors: INVALID_ARGUMENT. The estimates run at the level of `kernels`; a sketch's bytes depend on no level.
  static absl::StatusOr<Sketcher> Make(const Kernels& kernels, std::uint32_t bits, std::uint64_t seed, std::vector<float> mean);

  std::uint32_t padded_dim() const { return rotation_.padded_dim(); }  ///< dimensions that a code has: dim rounded up to a multiple of 8
  std::uint32_t sketch_bytes() const { return static_cast<std::uint32_t>(kFactorBytes) + bits_ * padded_dim() / 8; }

  /// Scratch of Encode; one per thread.
  struct Scratch {
    std::vector<float> hub, rotated_hub, residual, magnitudes;
    std::vector<std::uint8_t> levels;
  };
  /// What the following Encodes with this scratch are centred on: a stored row.
  void SetHub(const std::byte* hub, Scratch& scratch) const;
  /// Writes sketch_bytes() bytes. `row`: a stored row; one equal to the hub gets a sketch of zeros.
  void Encode(const std::byte* row, std::byte* sketch, Scratch& scratch) const;
  /// Both.
  void Encode(const std::byte* row, const std::byte* hub, std::byte* sketch, Scratch& scratch) const {
    SetHub(hub, scratch);
    Encode(row, sketch, scratch);
  }

 private:
  friend class SketchQuery;
  Sketcher(const Kernels& kernels, const SketchKernels* sketch_kernels, std::uint32_t bits, std::uint64_t seed, std::vector<float> mean);

  Kernels kernels_;
  const SketchKernels* sketch_kernels_;
  std::uint32_t bits_;
  Rotation rotation_;
  std::vector<float> mean_;  ///< continued with zeros
  CodeSize code_size_;
};

/// A query made ready for many estimates. Keeps its memory; one per thread.
class SketchQuery {
 public:
  /// `query`: in stored form. The sketcher need not outlive this.
  void Prepare(const Sketcher& sketcher, const std::byte* query);

  /// |query - hub|^2, which errors need: hub_distance itself under L2, twice it under cosine, and more work under inner product.
  /// `hub_distance`: of the exact kernel, as Kernels::ToDistance gives it.
  float SquaredGap(const std::byte* hub, float hub_distance) const;

  /// For a caller who knows a sketch long before it asks for the estimate.
  void Prefetch(const std::byte* sketch) const;

  /// estimates[i] = what Kernels::ToDistance would give for the vector of sketches[i], whose hub is at distance hub_distances[i] (from the
  /// exact kernel, same unit). Unbiased, so an estimate may lie below what a distance can be. errors, when not nullptr: one standard
  /// deviation or a little more, same unit; squared_gaps[i] (see SquaredGap) is then needed under inner product, and not read elsewhere.
  /// Sketches may lie anywhere, at any alignment: they are prefetched some way ahead. Any bytes give numbers: finite, at most FLT_MAX.
  void Estimate(const std::byte* const* sketches, const float* hub_distances, std::size_t n, float* estimates, float* errors,
                const float* squared_gaps = nullptr) const;

  /// The same for `n` sketches that follow each other, all of one hub: a cell. squared_gap: as SquaredGap gives it; read if errors are
  /// asked for.
  void EstimateCell(const std::byte* sketches, std::size_t n, float hub_distance, float* estimates, float* errors,
                    float squared_gap = 0) const;

 private:
  template <bool kOneHub>
  void Finish(const std::uint32_t* factors, const std::int32_t* dots, const float* hub_distances, const float* gaps, std::size_t n,
              float* estimates, float* errors) const;

  Kernels kernels_;
  GatheredDots gathered_ = nullptr;
  StridedDots strided_ = nullptr;
  std::uint32_t padded_dim_ = 0;
  std::uint32_t sketch_bytes_ = 0;
  std::vector<float> rotated_;
  std::vector<std::int8_t> components_;
  std::vector<QueryBlock> blocks_;
  float unit_ = 0;  ///< <q', x> = unit_ * (2 dot - offset_)
  std::int32_t offset_ = 0;
  float squared_norm_ = 0;       ///< of the query; under inner product
  float gap_factor_ = 0;         ///< from what Finish is given as gaps to |q - hub|^2, times the squared CodeSize::across
  float rounding_variance_ = 0;  ///< of <q', x> because q' is rounded
};

}  // namespace hmann
