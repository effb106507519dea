#include "index/codes/encoder.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "index/base/check.h"
#include "index/base/errors.h"
#include "index/base/prefetch.h"
#include "index/codes/choose.h"
#include "index/codes/factors.h"

namespace hmann {
namespace {

constexpr std::size_t kBatch = 32;  // codes between a prefetch and its use
constexpr float kQueryLevels = 127;

/// Decodes a stored row into the space of the metric, padded with zeros.
void Decode(const Kernels& kernels, const std::byte* row, std::uint32_t padded_dim, float* out) {
  ReadComponents(kernels.dtype, row, kernels.dim, out);
  if (kernels.metric == Metric::kCosine && !IsFloat(kernels.dtype)) {
    float scale;
    std::memcpy(&scale, row + kernels.row_bytes - sizeof(scale), sizeof(scale));
    for (std::uint32_t i = 0; i < kernels.dim; ++i) out[i] *= scale;
  }
  std::fill(out + kernels.dim, out + padded_dim, 0.0f);
}

/// <a, b> in double precision, in a fixed order. `dim`: a multiple of 8.
double Dot(const float* a, const float* b, std::uint32_t dim) {
  double sums[8] = {};
  for (std::uint32_t i = 0; i < dim; i += 8) {
    for (std::uint32_t lane = 0; lane < 8; ++lane)
      sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

float ToFloat(double x) {
  return static_cast<float>(
      std::clamp(x, static_cast<double>(-FLT_MAX), static_cast<double>(FLT_MAX)));
}

/// Prefetches all cache lines of a code, whose start is unaligned. It always makes the
/// same number of requests. A branch on the alignment would be unpredictable, and cost 3
/// ns a code.
inline void PrefetchCode(const std::byte* code, std::size_t bytes) {
  PrefetchLines(code, bytes);
  PrefetchLines(code + bytes - 1, 1);
}

}  // namespace

absl::StatusOr<Encoder> Encoder::Make(const Kernels& kernels, std::uint32_t bits,
                                      std::uint64_t seed, std::vector<float> mean) {
  if (kernels.dim == 0 || kernels.dim > kMaxDim)
    return InvalidArgument("dimension: expected 1 to ", kMaxDim, "; found ", kernels.dim);
  if (!IsCodeBits(bits)) return InvalidArgument("bits of a code: expected 1, 2 or 4; found ", bits);
  if (mean.size() != kernels.dim)
    return InvalidArgument("mean: expected ", kernels.dim, " components; found ", mean.size());
  double squared_norm = 0;
  for (const float component : mean)
    squared_norm += static_cast<double>(component) * static_cast<double>(component);
  if (!(squared_norm <= FLT_MAX / 4)) {
    return InvalidArgument("mean: expected a squared norm of at most ", FLT_MAX / 4, "; found ",
                           squared_norm);
  }
  const CodeKernels* code_kernels = FindCodeKernels(kernels.simd);
  if (code_kernels == nullptr) {
    return InvalidArgument("instruction set: no code kernels for '",
                           absl::string_view(kernels.simd.data(), kernels.simd.size()), "'");
  }
  mean.resize((std::size_t{kernels.dim} + 7) / 8 * 8);
  return Encoder(kernels, code_kernels, bits, seed, std::move(mean));
}

Encoder::Encoder(const Kernels& kernels, const CodeKernels* code_kernels, std::uint32_t bits,
                 std::uint64_t seed, std::vector<float> mean)
    : kernels_(kernels),
      code_kernels_(code_kernels),
      bits_(bits),
      rotation_(kernels.dim, seed),
      mean_(std::move(mean)),
      code_size_(MeasureCodes(padded_dim(), bits)) {}

void Encoder::SetCentroid(const std::byte* centroid, Scratch& scratch) const {
  const std::uint32_t dim = padded_dim();
  scratch.centroid.resize(dim), scratch.rotated_centroid.resize(dim);
  Decode(kernels_, centroid, dim, scratch.centroid.data());
  for (std::uint32_t i = 0; i < dim; ++i)
    scratch.rotated_centroid[i] = scratch.centroid[i] - mean_[i];
  rotation_.Apply(scratch.rotated_centroid.data());
}

void Encoder::Encode(const std::byte* row, std::byte* code, Scratch& scratch) const {
  const std::uint32_t dim = padded_dim();
  scratch.residual.resize(dim), scratch.magnitudes.resize(dim), scratch.levels.resize(dim);
  float* a = scratch.residual.data();
  const float* centroid = scratch.centroid.data();
  Decode(kernels_, row, dim, a);
  for (std::uint32_t i = 0; i < dim; ++i) a[i] -= centroid[i];
  const double squared_rho = Dot(a, a, dim);
  if (!(squared_rho >= FLT_MIN)) {
    std::memset(code, 0, code_bytes());
    return;
  }
  const bool is_l2 = kernels_.metric == Metric::kL2;
  const double constant = is_l2 ? squared_rho : -Dot(a, centroid, dim);
  const double rho = std::sqrt(squared_rho);
  const auto inverse_rho = static_cast<float>(1 / rho);
  for (std::uint32_t i = 0; i < dim; ++i) a[i] *= inverse_rho;
  rotation_.Apply(a);

  const Quantization quantized =
      Quantize(a, dim, bits_, scratch.magnitudes.data(), scratch.levels.data());
  const float factor = ToFloat((is_l2 ? 2 : 1) * rho / static_cast<double>(quantized.dot));
  const auto rounded = static_cast<double>(UnpackFactors(PackFactors({0, factor})).b);
  const double of_centroid = static_cast<double>(
      DotWithLevels(scratch.rotated_centroid.data(), scratch.levels.data(), dim, bits_));
  const std::uint32_t factors = PackFactors({ToFloat(constant + rounded * of_centroid), factor});
  std::memcpy(code, &factors, kFactorBytes);
  PackLevels(scratch.levels.data(), dim, bits_, code + kFactorBytes);
}

void CodeQuery::Prepare(const Encoder& encoder, const std::byte* query) {
  kernels_ = encoder.kernels_;
  gathered_ = encoder.code_kernels_->gathered[KernelOf(encoder.bits_)];
  strided_ = encoder.code_kernels_->strided[KernelOf(encoder.bits_)];
  padded_dim_ = encoder.padded_dim();
  code_bytes_ = encoder.code_bytes();
  rotated_.resize(padded_dim_), components_.resize(padded_dim_);
  Decode(kernels_, query, padded_dim_, rotated_.data());
  if (kernels_.metric == Metric::kInnerProduct)
    squared_norm_ = ToFloat(Dot(rotated_.data(), rotated_.data(), padded_dim_));
  for (std::uint32_t i = 0; i < padded_dim_; ++i) rotated_[i] -= encoder.mean_[i];
  encoder.rotation_.Apply(rotated_.data());

  float largest = 0;
  for (const float component : rotated_) largest = std::max(largest, std::fabs(component));
  const float scale = largest >= FLT_MIN ? kQueryLevels / largest : 0;
  std::int32_t sum = 0;
  for (std::uint32_t i = 0; i < padded_dim_; ++i) {
    components_[i] = static_cast<std::int8_t>(
        std::lrint(std::clamp(rotated_[i] * scale, -kQueryLevels, kQueryLevels)));
    sum += components_[i];
  }
  LayOutQuery(components_.data(), padded_dim_, encoder.bits_, blocks_);

  const float step = largest / kQueryLevels;
  const std::int32_t levels = (1 << encoder.bits_) - 1;
  unit_ = step / 2;
  offset_ = levels * sum;
  gap_factor_ = encoder.code_size_.across * encoder.code_size_.across;
  rounding_variance_ = step * step / 12 * encoder.code_size_.norm * encoder.code_size_.norm;
}

void CodeQuery::Prefetch(const std::byte* code) const { PrefetchCode(code, code_bytes_); }

float CodeQuery::SquaredGap(const std::byte* centroid, float centroid_distance) const {
  if (kernels_.metric == Metric::kL2) return centroid_distance;
  if (kernels_.metric == Metric::kCosine) return 2 * centroid_distance;
  const float centroid_norm = -kernels_.ToDistance(kernels_.one(centroid, centroid, kernels_.dim));
  return std::max(0.0f, squared_norm_ + 2 * centroid_distance + centroid_norm);
}

template <bool kOneCentroid>
void CodeQuery::Finish(const std::uint32_t* factors, const std::int32_t* dots,
                       const float* centroid_distances, const float* gaps, std::size_t n,
                       float* estimates, float* errors) const {
  for (std::size_t i = 0; i < n; ++i) {
    const Factors f = UnpackFactors(factors[i]);
    const float centroid = centroid_distances[kOneCentroid ? 0 : i];
    const float estimate =
        centroid + f.a - f.b * (unit_ * static_cast<float>(2 * dots[i] - offset_));
    const float bounded = estimate < FLT_MAX ? estimate : FLT_MAX;  // also for NaN
    estimates[i] = bounded > -FLT_MAX ? bounded : -FLT_MAX;
  }
  if (errors == nullptr) return;
  for (std::size_t i = 0; i < n; ++i) {
    const Factors f = UnpackFactors(factors[i]);
    const float gap = gaps[kOneCentroid ? 0 : i];
    // In doubles: a variance is the square of a distance, whose range f32 fills.
    const double a = f.a, b = f.b, rounding = a * kRoundingOfA;
    const double error =
        std::sqrt(b * b * (gap * gap_factor_ + rounding_variance_) + rounding * rounding);
    errors[i] = error < FLT_MAX ? static_cast<float>(error) : FLT_MAX;
  }
}

void CodeQuery::Estimate(const std::byte* const* codes, const float* centroid_distances,
                         std::size_t n, float* estimates, float* errors,
                         const float* squared_gaps) const {
  const bool is_inner_product = kernels_.metric == Metric::kInnerProduct;
  HMANN_CHECK(!is_inner_product || errors == nullptr || squared_gaps != nullptr);
  const float to_gap = kernels_.metric == Metric::kCosine ? 2.0f : 1.0f;
  std::uint32_t factors[kBatch];
  std::int32_t dots[kBatch];
  float gaps[kBatch];
  for (std::size_t i = 0; i < std::min(n, kBatch); ++i) PrefetchCode(codes[i], code_bytes_);
  for (std::size_t begin = 0; begin < n; begin += kBatch) {
    const std::size_t end = std::min(n, begin + kBatch), size = end - begin;
    for (std::size_t i = end; i < std::min(n, end + kBatch); ++i)
      PrefetchCode(codes[i], code_bytes_);
    gathered_(blocks_.data(), padded_dim_, codes + begin, size, dots);
    for (std::size_t i = 0; i < size; ++i) std::memcpy(&factors[i], codes[begin + i], kFactorBytes);
    if (errors != nullptr) {
      const float* given = is_inner_product ? squared_gaps : centroid_distances;
      for (std::size_t i = 0; i < size; ++i) gaps[i] = given[begin + i] * to_gap;
    }
    Finish<false>(factors, dots, centroid_distances + begin, gaps, size, estimates + begin,
                  errors == nullptr ? nullptr : errors + begin);
  }
}

void CodeQuery::EstimateCell(const std::byte* codes, std::size_t n, float centroid_distance,
                             float* estimates, float* errors, float squared_gap) const {
  std::uint32_t factors[kBatch];
  std::int32_t dots[kBatch];
  for (std::size_t begin = 0; begin < n; begin += kBatch) {
    const std::size_t size = std::min(kBatch, n - begin);
    const std::byte* first = codes + begin * code_bytes_;
    strided_(blocks_.data(), padded_dim_, first, code_bytes_, size, dots);
    for (std::size_t i = 0; i < size; ++i)
      std::memcpy(&factors[i], first + i * code_bytes_, kFactorBytes);
    Finish<true>(factors, dots, &centroid_distance, &squared_gap, size, estimates + begin,
                 errors == nullptr ? nullptr : errors + begin);
  }
}

}  // namespace hmann
