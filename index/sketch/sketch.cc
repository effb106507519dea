#include "index/sketch/sketch.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "index/base/check.h"
#include "index/base/prefetch.h"
#include "index/sketch/choose.h"
#include "index/sketch/factors.h"

namespace hmann {
namespace {

constexpr std::size_t kBatch = 32;  // sketches between a prefetch and its use
constexpr float kQueryLevels = 127;

template <class Component>
void Widen(const std::byte* row, std::uint32_t dim, float scale, float* out) {
  const auto* components = reinterpret_cast<const Component*>(row);
  for (std::uint32_t i = 0; i < dim; ++i) out[i] = static_cast<float>(components[i]) * scale;
}

/// A stored row in the space that the metric works in, continued with zeros.
void Decode(const Kernels& kernels, const std::byte* row, std::uint32_t padded_dim, float* out) {
  float scale = 1;
  if (kernels.metric == Metric::kCosine && kernels.dtype != DType::kF32) {
    std::memcpy(&scale, row + kernels.row_bytes - sizeof(scale), sizeof(scale));
  }
  if (kernels.dtype == DType::kF32) std::memcpy(out, row, kernels.dim * sizeof(float));
  if (kernels.dtype == DType::kU8) Widen<std::uint8_t>(row, kernels.dim, scale, out);
  if (kernels.dtype == DType::kI8) Widen<std::int8_t>(row, kernels.dim, scale, out);
  std::fill(out + kernels.dim, out + padded_dim, 0.0f);
}

/// <a, b> in double precision, in a fixed order. `dim`: a multiple of 8.
double Dot(const float* a, const float* b, std::uint32_t dim) {
  double sums[8] = {};
  for (std::uint32_t i = 0; i < dim; i += 8) {
    for (std::uint32_t lane = 0; lane < 8; ++lane) sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

float ToFloat(double x) { return static_cast<float>(std::clamp(x, static_cast<double>(-FLT_MAX), static_cast<double>(FLT_MAX))); }

/// All cache lines that a sketch touches: its start is aligned to nothing. Always as many requests, whatever the start: a branch that
/// depends on it is a coin toss, and cost 3 ns a sketch.
inline void PrefetchSketch(const std::byte* sketch, std::size_t bytes) {
  PrefetchLines(sketch, bytes);
  PrefetchLines(sketch + bytes - 1, 1);
}

}  // namespace

absl::StatusOr<Sketcher> Sketcher::Make(const Kernels& kernels, std::uint32_t bits, std::uint64_t seed, std::vector<float> mean) {
  if (kernels.dim == 0 || kernels.dim > kMaxDim) {
    return absl::InvalidArgumentError(absl::StrCat("dimension: expected 1 to ", kMaxDim, "; found ", kernels.dim));
  }
  if (bits < 1 || bits > 4) return absl::InvalidArgumentError(absl::StrCat("bits of a sketch: expected 1 to 4; found ", bits));
  if (mean.size() != kernels.dim) {
    return absl::InvalidArgumentError(absl::StrCat("mean: expected ", kernels.dim, " components; found ", mean.size()));
  }
  double squared_norm = 0;
  for (const float component : mean) squared_norm += static_cast<double>(component) * static_cast<double>(component);
  if (!(squared_norm <= FLT_MAX / 4)) {
    return absl::InvalidArgumentError(absl::StrCat("mean: expected a squared norm of at most ", FLT_MAX / 4, "; found ", squared_norm));
  }
  const SketchKernels* sketch_kernels = FindSketchKernels(kernels.simd);
  if (sketch_kernels == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("instruction set: no sketch kernels for '", absl::string_view(kernels.simd.data(), kernels.simd.size()), "'"));
  }
  mean.resize((std::size_t{kernels.dim} + 7) / 8 * 8);
  return Sketcher(kernels, sketch_kernels, bits, seed, std::move(mean));
}

Sketcher::Sketcher(const Kernels& kernels, const SketchKernels* sketch_kernels, std::uint32_t bits, std::uint64_t seed,
                   std::vector<float> mean)
    : kernels_(kernels),
      sketch_kernels_(sketch_kernels),
      bits_(bits),
      rotation_(kernels.dim, seed),
      mean_(std::move(mean)),
      code_size_(MeasureCodes(padded_dim(), bits)) {}

void Sketcher::SetHub(const std::byte* hub, Scratch& scratch) const {
  const std::uint32_t dim = padded_dim();
  scratch.hub.resize(dim), scratch.rotated_hub.resize(dim);
  Decode(kernels_, hub, dim, scratch.hub.data());
  for (std::uint32_t i = 0; i < dim; ++i) scratch.rotated_hub[i] = scratch.hub[i] - mean_[i];
  rotation_.Apply(scratch.rotated_hub.data());
}

void Sketcher::Encode(const std::byte* row, std::byte* sketch, Scratch& scratch) const {
  const std::uint32_t dim = padded_dim();
  scratch.residual.resize(dim), scratch.magnitudes.resize(dim), scratch.levels.resize(dim);
  float* a = scratch.residual.data();
  const float* hub = scratch.hub.data();
  Decode(kernels_, row, dim, a);
  for (std::uint32_t i = 0; i < dim; ++i) a[i] -= hub[i];
  const double squared_rho = Dot(a, a, dim);
  if (!(squared_rho >= FLT_MIN)) {
    std::memset(sketch, 0, sketch_bytes());
    return;
  }
  const bool is_l2 = kernels_.metric == Metric::kL2;
  const double constant = is_l2 ? squared_rho : -Dot(a, hub, dim);
  const double rho = std::sqrt(squared_rho);
  const auto inverse_rho = static_cast<float>(1 / rho);
  for (std::uint32_t i = 0; i < dim; ++i) a[i] *= inverse_rho;
  rotation_.Apply(a);

  const Quantised code = Quantise(a, dim, bits_, scratch.magnitudes.data(), scratch.levels.data());
  const float factor = ToFloat((is_l2 ? 2 : 1) * rho / static_cast<double>(code.dot));
  const auto rounded = static_cast<double>(UnpackFactors(PackFactors({0, factor})).b);
  const double of_hub = static_cast<double>(DotWithLevels(scratch.rotated_hub.data(), scratch.levels.data(), dim, bits_));
  const std::uint32_t factors = PackFactors({ToFloat(constant + rounded * of_hub), factor});
  std::memcpy(sketch, &factors, kFactorBytes);
  PackLevels(scratch.levels.data(), dim, bits_, sketch + kFactorBytes);
}

void SketchQuery::Prepare(const Sketcher& sketcher, const std::byte* query) {
  kernels_ = sketcher.kernels_;
  gathered_ = sketcher.sketch_kernels_->gathered[sketcher.bits_ - 1];
  strided_ = sketcher.sketch_kernels_->strided[sketcher.bits_ - 1];
  padded_dim_ = sketcher.padded_dim();
  sketch_bytes_ = sketcher.sketch_bytes();
  rotated_.resize(padded_dim_), components_.resize(padded_dim_);
  Decode(kernels_, query, padded_dim_, rotated_.data());
  if (kernels_.metric == Metric::kInnerProduct) squared_norm_ = ToFloat(Dot(rotated_.data(), rotated_.data(), padded_dim_));
  for (std::uint32_t i = 0; i < padded_dim_; ++i) rotated_[i] -= sketcher.mean_[i];
  sketcher.rotation_.Apply(rotated_.data());

  float largest = 0;
  for (const float component : rotated_) largest = std::max(largest, std::fabs(component));
  const float scale = largest >= FLT_MIN ? kQueryLevels / largest : 0;
  std::int32_t sum = 0;
  for (std::uint32_t i = 0; i < padded_dim_; ++i) {
    components_[i] = static_cast<std::int8_t>(std::lrint(std::clamp(rotated_[i] * scale, -kQueryLevels, kQueryLevels)));
    sum += components_[i];
  }
  LayOutQuery(components_.data(), padded_dim_, sketcher.bits_, blocks_);

  const float step = largest / kQueryLevels;
  const std::int32_t levels = (1 << sketcher.bits_) - 1;
  unit_ = step / 2;
  offset_ = levels * sum;
  gap_factor_ = sketcher.code_size_.across * sketcher.code_size_.across;
  rounding_variance_ = step * step / 12 * sketcher.code_size_.norm * sketcher.code_size_.norm;
}

void SketchQuery::Prefetch(const std::byte* sketch) const { PrefetchSketch(sketch, sketch_bytes_); }

float SketchQuery::SquaredGap(const std::byte* hub, float hub_distance) const {
  if (kernels_.metric == Metric::kL2) return hub_distance;
  if (kernels_.metric == Metric::kCosine) return 2 * hub_distance;
  const float hub_norm = -kernels_.ToDistance(kernels_.one(hub, hub, kernels_.dim));
  return std::max(0.0f, squared_norm_ + 2 * hub_distance + hub_norm);
}

template <bool kOneHub>
void SketchQuery::Finish(const std::uint32_t* factors, const std::int32_t* dots, const float* hub_distances, const float* gaps,
                         std::size_t n, float* estimates, float* errors) const {
  for (std::size_t i = 0; i < n; ++i) {
    const Factors f = UnpackFactors(factors[i]);
    const float hub = hub_distances[kOneHub ? 0 : i];
    const float estimate = hub + f.a - f.b * (unit_ * static_cast<float>(2 * dots[i] - offset_));
    const float bounded = estimate < FLT_MAX ? estimate : FLT_MAX;  // also for NaN
    estimates[i] = bounded > -FLT_MAX ? bounded : -FLT_MAX;
  }
  if (errors == nullptr) return;
  for (std::size_t i = 0; i < n; ++i) {
    const Factors f = UnpackFactors(factors[i]);
    const float gap = gaps[kOneHub ? 0 : i];
    const float rounding = f.a * kRoundingOfA;
    const float variance = f.b * f.b * (gap * gap_factor_ + rounding_variance_) + rounding * rounding;
    errors[i] = std::sqrt(variance < FLT_MAX ? variance : FLT_MAX);
  }
}

void SketchQuery::Estimate(const std::byte* const* sketches, const float* hub_distances, std::size_t n, float* estimates, float* errors,
                           const float* squared_gaps) const {
  const bool is_inner_product = kernels_.metric == Metric::kInnerProduct;
  HMANN_CHECK(!is_inner_product || errors == nullptr || squared_gaps != nullptr);
  const float to_gap = kernels_.metric == Metric::kCosine ? 2.0f : 1.0f;
  std::uint32_t factors[kBatch];
  std::int32_t dots[kBatch];
  float gaps[kBatch];
  for (std::size_t i = 0; i < std::min(n, kBatch); ++i) PrefetchSketch(sketches[i], sketch_bytes_);
  for (std::size_t begin = 0; begin < n; begin += kBatch) {
    const std::size_t end = std::min(n, begin + kBatch), size = end - begin;
    for (std::size_t i = end; i < std::min(n, end + kBatch); ++i) PrefetchSketch(sketches[i], sketch_bytes_);
    gathered_(blocks_.data(), padded_dim_, sketches + begin, size, dots);
    for (std::size_t i = 0; i < size; ++i) std::memcpy(&factors[i], sketches[begin + i], kFactorBytes);
    if (errors != nullptr) {
      const float* given = is_inner_product ? squared_gaps : hub_distances;
      for (std::size_t i = 0; i < size; ++i) gaps[i] = given[begin + i] * to_gap;
    }
    Finish<false>(factors, dots, hub_distances + begin, gaps, size, estimates + begin, errors == nullptr ? nullptr : errors + begin);
  }
}

void SketchQuery::EstimateCell(const std::byte* sketches, std::size_t n, float hub_distance, float* estimates, float* errors,
                               float squared_gap) const {
  std::uint32_t factors[kBatch];
  std::int32_t dots[kBatch];
  for (std::size_t begin = 0; begin < n; begin += kBatch) {
    const std::size_t size = std::min(kBatch, n - begin);
    const std::byte* first = sketches + begin * sketch_bytes_;
    strided_(blocks_.data(), padded_dim_, first, sketch_bytes_, size, dots);
    for (std::size_t i = 0; i < size; ++i) std::memcpy(&factors[i], first + i * sketch_bytes_, kFactorBytes);
    Finish<true>(factors, dots, &hub_distance, &squared_gap, size, estimates + begin, errors == nullptr ? nullptr : errors + begin);
  }
}

}  // namespace hmann
