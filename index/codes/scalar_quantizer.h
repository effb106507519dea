#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/distance.h"
#include "index/codes/quantizer.h"
#include "index/codes/rotation.h"

namespace hmann {

/// Bytes of a code of 4 or 8 bits a component.
constexpr std::uint32_t ScalarCodeBytes(std::uint32_t dim, std::uint32_t bits) {
  return bits == 8 ? dim : (dim + 7) / 8 * 4;
}

constexpr std::size_t ScalarRangeSize(std::uint32_t dim) { return (dim + 7) / 8 * 8 + 3; }

/// Scalar quantization (SQ4, SQ8): each component of a vector becomes a level of 4 or 8
/// bits. The step between levels is the same for all dimensions, so that sums over levels
/// are distances. Each dimension has its own middle:
///
///     x_i = middle_i + step (u_i - (2^bits - 1) / 2) + error
///
/// With 4 bits, components may be those of the rotated vector, if that lessens the error:
/// it spreads the variance evenly, which one step for all dimensions needs.
///
/// A code is a row of other kernels: it has no factors and no centroid. Apart from the
/// quantization error, these kernels order codes relative to a query as the metric orders
/// the vectors. Cosine: codes of normalized vectors, whose squared L2 distance is twice
/// that of cosine. At the same parameters, 8 bits of 96-d f32 lose 0.001 of recall@10,
/// and 4 bits of 768-d f32 lose 0.002 (doc/tuning.md). A value; immutable; thread-safe.
class ScalarQuantizer {
 public:
  /// Learns from the vectors of an index: `sample` gives `count` stored rows. A few
  /// quantiles of the sample are tried as ends of the range; middles and step are those
  /// with the least squared error. `bits`: 4 or 8. Errors: INVALID_ARGUMENT (bits, no
  /// sample).
  static absl::StatusOr<ScalarQuantizer> Learn(
      const Kernels& kernels, std::uint32_t bits, std::size_t count,
      const std::function<const std::byte*(std::size_t)>& sample);

  /// From the range() of another. Errors: INVALID_ARGUMENT (a range that none has).
  static absl::StatusOr<ScalarQuantizer> FromRange(const Kernels& kernels, std::uint32_t bits,
                                                   std::span<const float> range);

  std::uint32_t bits() const { return bits_; }
  float step() const { return step_; }
  /// The distance between vectors for a distance of 1 between code and query. Inner
  /// products have the query's unit.
  float unit() const;
  /// The step, the variance of a component's error in steps squared, 1 if vectors are
  /// rotated or else 0, and the values of level 0: ScalarRangeSize(dim) numbers.
  std::vector<float> range() const;
  /// Kernels over codes and queries as Encode and EncodeQuery write them. The keys are
  /// integers, in order of distance.
  const Kernels& kernels() const { return code_kernels_; }
  std::uint32_t code_bytes() const { return code_kernels_.row_bytes; }
  std::uint32_t query_bytes() const { return query_bytes_; }

  /// One per thread.
  struct Scratch {
    std::vector<float> components;
    std::vector<std::uint8_t> levels;
    std::vector<std::int8_t> query;
    std::vector<QueryBlock> blocks;
  };
  /// `row`: a stored row; `code`: code_bytes() bytes.
  void Encode(const std::byte* row, std::byte* code, Scratch& scratch) const;
  /// `query`: in stored form; `out`: query_bytes() bytes.
  void EncodeQuery(const std::byte* query, std::byte* out, Scratch& scratch) const;
  /// The largest key of a code whose vector may be as near to `query` as the vector of a
  /// code with `key`: three standard deviations of a code's error above it. `query`: as
  /// EncodeQuery wrote it.
  DistanceKey Margin(const std::byte* query, DistanceKey key) const;

 private:
  ScalarQuantizer(const Kernels& kernels, std::uint32_t bits) : kernels_(kernels), bits_(bits) {}
  absl::Status ChooseCodeKernels();
  void Rotate();
  /// Components of a code: all, or more after a rotation.
  std::size_t dims() const {
    return rotation_.has_value() ? rotation_->padded_dim() : kernels_.dim;
  }
  /// Returns the mean squared error of a component.
  double Fit(std::size_t count, const std::function<const std::byte*(std::size_t)>& sample);
  /// `weights`: what the error of each vector counts. Squared errors above
  /// `largest_error` count like it: a vector so wrong is lost.
  struct Sample {
    std::vector<std::vector<float>> columns;
    std::vector<float> weights;
    float largest_error = 0;
  };
  /// By inner product nearly all answers are long: a range fitted to all vectors alike
  /// clips them, and their codes lose to others. A weight follows the chance that a
  /// normal distribution, as wide as a vector is long, is above the most that a sample of
  /// one length reaches. By other metrics all weights are equal, and a few vectors far
  /// away from the rest must not widen the range of all.
  void Weigh(Sample& sample) const;
  double FitRange(const Sample& sample);
  /// Returns the mean squared error of a component, and sets variance_ to that of the
  /// vectors that are not lost.
  double Measure(const Sample& sample);
  /// Reads the row's components as the metric sees them.
  void Read(const std::byte* row, Scratch& scratch) const;

  Kernels kernels_, code_kernels_;
  std::uint32_t bits_;
  std::uint32_t query_bytes_ = 0;
  float step_ = 1;
  float variance_ = 0;  ///< of a component's error, in steps squared
  std::optional<Rotation> rotation_;
  std::vector<float> lowest_;  ///< the values of level 0
};

}  // namespace hmann
