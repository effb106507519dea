#include "index/codes/scalar_quantizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "index/base/status_macros.h"
#include "index/codes/choose.h"

namespace hmann {
namespace {

using Columns = std::vector<std::vector<float>>;

/// With SQ4, a query's components are eighths of a step.
constexpr float kQueryUnits = 8;
/// kClipped: the shares of the sample that may lie outside the range, at each end.
/// kWidths: the quantile of the dimensions' ranges, from narrow to wide, that becomes the
/// range of all.
constexpr double kClipped[] = {0, 0.0005, 0.002, 0.005, 0.01, 0.02, 0.04};
constexpr double kWidths[] = {1, 0.9, 0.8};

/// A rotation takes time for each query. It pays if it leaves at most this share of the
/// error, which is a guess.
constexpr double kRotate = 0.75;

float Quantile(const std::vector<float>& sorted, double at) {
  return sorted[static_cast<std::size_t>(at * static_cast<double>(sorted.size() - 1))];
}

/// The nearest of -128 to 127. NaN becomes -128: huge components may overflow. Loops over
/// it vectorize.
std::int8_t Rounded(float x) {
  const float least = x > -128.0f ? x : -128.0f, most = least < 127.0f ? least : 127.0f;
  return static_cast<std::int8_t>(static_cast<std::int32_t>(most + 128.5f) - 128);
}

float Median(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  return Quantile(values, 0.5);
}

}  // namespace

absl::StatusOr<ScalarQuantizer> ScalarQuantizer::Learn(
    const Kernels& kernels, std::uint32_t bits, std::size_t count,
    const std::function<const std::byte*(std::size_t)>& sample) {
  if (bits != 4 && bits != 8) return InvalidArgument("sq: expected 0, 4 or 8, found ", bits);
  if (count == 0) return InvalidArgument("sq: no vectors to learn from");
  ScalarQuantizer quantizer(kernels, bits);
  HMANN_RETURN_IF_ERROR(quantizer.ChooseCodeKernels());
  const double error = quantizer.Fit(count, sample);
  if (bits == 8) return quantizer;
  ScalarQuantizer rotated = quantizer;
  rotated.Rotate();
  return rotated.Fit(count, sample) < kRotate * error ? rotated : quantizer;
}

double ScalarQuantizer::Fit(std::size_t count,
                            const std::function<const std::byte*(std::size_t)>& sample) {
  Sample vectors{.columns = Columns(dims(), std::vector<float>(count)),
                 .weights = std::vector<float>(count, 1)};
  Scratch scratch;
  for (std::size_t i = 0; i < count; ++i) {
    Read(sample(i), scratch);
    for (std::size_t d = 0; d < dims(); ++d) vectors.columns[d][i] = scratch.components[d];
  }
  Weigh(vectors);
  return FitRange(vectors);
}

void ScalarQuantizer::Weigh(Sample& sample) const {
  constexpr std::size_t kLongest = 10;  // a guess
  const bool ip = kernels_.metric == Metric::kInnerProduct;
  const std::size_t count = sample.weights.size();
  std::vector<float> squared(count, 0);
  for (const std::vector<float>& column : sample.columns) {
    const float from = ip ? 0 : Median(column);
    for (std::size_t i = 0; i < count; ++i) squared[i] += (column[i] - from) * (column[i] - from);
  }
  std::vector<float> sorted = squared;
  std::sort(sorted.begin(), sorted.end());
  sample.largest_error = sorted[ip ? count - std::min(count, kLongest) : count / 2];
  if (!ip) return;
  const float rate = std::log(static_cast<float>(count));
  for (std::size_t i = 0; i < count; ++i) {
    const float shorter = std::max(0.0f, sample.largest_error / squared[i] - 1);
    sample.weights[i] = std::exp(-rate * shorter);
  }
}

void ScalarQuantizer::Rotate() {
  constexpr std::uint64_t kSeed = 1;
  rotation_.emplace(kernels_.dim, kSeed);
}

absl::StatusOr<ScalarQuantizer> ScalarQuantizer::FromRange(const Kernels& kernels,
                                                           std::uint32_t bits,
                                                           std::span<const float> range) {
  if (bits != 4 && bits != 8) return InvalidArgument("sq: expected 4 or 8, found ", bits);
  const bool sound =
      range.size() == ScalarRangeSize(kernels.dim) && range[0] > 0 && range[1] >= 0 &&
      (range[2] == 0 || (range[2] == 1 && bits == 4)) &&
      std::all_of(range.begin(), range.end(), [](float x) { return std::isfinite(x); });
  if (!sound) {
    return InvalidArgument("expected ", ScalarRangeSize(kernels.dim),
                           " finite numbers, first a step above 0, a variance, and 0 or 1");
  }
  ScalarQuantizer quantizer(kernels, bits);
  HMANN_RETURN_IF_ERROR(quantizer.ChooseCodeKernels());
  quantizer.step_ = range[0];
  quantizer.variance_ = range[1];
  if (range[2] == 1) quantizer.Rotate();
  quantizer.lowest_.assign(range.begin() + 3,
                           range.begin() + 3 + static_cast<std::ptrdiff_t>(quantizer.dims()));
  return quantizer;
}

std::vector<float> ScalarQuantizer::range() const {
  std::vector<float> range = {step_, variance_, rotation_.has_value() ? 1.0f : 0.0f};
  range.insert(range.end(), lowest_.begin(), lowest_.end());
  range.resize(ScalarRangeSize(kernels_.dim));
  return range;
}

absl::Status ScalarQuantizer::ChooseCodeKernels() {
  const bool ip = kernels_.metric == Metric::kInnerProduct;
  HMANN_ASSIGN_OR_RETURN(
      code_kernels_,
      ChooseKernels(DType::kI8, ip ? Metric::kInnerProduct : Metric::kL2, kernels_.dim));
  query_bytes_ = kernels_.dim;
  if (bits_ == 8) return absl::OkStatus();
  const CodeKernels* const codes = FindCodeKernels(code_kernels_.simd);
  code_kernels_.one = codes->scalar_one[ip ? 1 : 0];
  code_kernels_.many = codes->scalar_many[ip ? 1 : 0];
  code_kernels_.block = nullptr;
  code_kernels_.row_bytes = ScalarCodeBytes(kernels_.dim, bits_);
  const std::size_t blocks = (kernels_.dim + kBlockDims - 1) / kBlockDims;
  query_bytes_ = static_cast<std::uint32_t>(blocks * sizeof(QueryBlock) + sizeof(std::int32_t));
  return absl::OkStatus();
}

double ScalarQuantizer::Measure(const Sample& sample) {
  const float most = bits_ == 8 ? 255 : 15;
  std::vector<float> errors(sample.weights.size(), 0);
  for (std::size_t d = 0; d < sample.columns.size(); ++d) {
    for (std::size_t i = 0; i < errors.size(); ++i) {
      const float at = (sample.columns[d][i] - lowest_[d]) / step_;
      const float level = std::floor(std::clamp(at, 0.0f, most) + 0.5f);
      errors[i] += (at - level) * (at - level);
    }
  }
  const double lost = double{sample.largest_error} / step_ / step_;
  double sum = 0, weights = 0, sum_of_kept = 0, weights_of_kept = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const double weight = sample.weights[i], error = std::min(double{errors[i]}, lost);
    weights += weight;
    sum += weight * error;
    if (error >= lost) continue;
    weights_of_kept += weight;
    sum_of_kept += weight * error;
  }
  const auto dim = static_cast<double>(sample.columns.size());
  variance_ = static_cast<float>(weights_of_kept > 0 ? sum_of_kept / (dim * weights_of_kept) : 0);
  return sum / (dim * weights) * step_ * step_;
}

double ScalarQuantizer::FitRange(const Sample& sample) {
  constexpr std::size_t kTried = std::size(kClipped);
  const std::size_t dim = sample.columns.size();
  Columns middles(kTried, std::vector<float>(dim)), widths = middles;
  for (std::size_t d = 0; d < dim; ++d) {
    std::vector<float> column = sample.columns[d];
    std::sort(column.begin(), column.end());
    for (std::size_t c = 0; c < kTried; ++c) {
      const float low = Quantile(column, kClipped[c]), high = Quantile(column, 1 - kClipped[c]);
      middles[c][d] = low + (high - low) / 2;
      widths[c][d] = high - low;
    }
  }
  ScalarQuantizer best = *this;
  double least = std::numeric_limits<double>::max();
  for (std::size_t c = 0; c < kTried; ++c) {
    std::vector<float> sorted = widths[c];
    std::sort(sorted.begin(), sorted.end());
    for (const double width : kWidths) {
      const float range = Quantile(sorted, width);
      if (!(range > 0)) continue;
      step_ = range / (bits_ == 8 ? 255.0f : 15.0f);
      lowest_.resize(dim);
      for (std::size_t d = 0; d < dim; ++d) lowest_[d] = middles[c][d] - range / 2;
      const double error = Measure(sample);
      if (!(error < least)) continue;
      least = error;
      best = *this;
    }
  }
  if (best.lowest_.empty()) {  // all vectors are equal
    best.lowest_ = middles.back();
    least = 0;
  }
  *this = std::move(best);
  return least;
}

float ScalarQuantizer::unit() const {
  const float level = step_ / static_cast<float>(bits_ == 8 ? 1 : kQueryUnits);
  return (kernels_.metric == Metric::kCosine ? 0.5f : 1.0f) * level * level;
}

void ScalarQuantizer::Read(const std::byte* row, Scratch& scratch) const {
  scratch.components.assign(dims(), 0);
  ReadComponents(kernels_.dtype, row, kernels_.dim, scratch.components.data());
  if (kernels_.metric == Metric::kCosine && !IsFloat(kernels_.dtype)) {
    float scale = 1;
    std::memcpy(&scale, row + kernels_.row_bytes - sizeof(scale), sizeof(scale));
    for (float& component : scratch.components) component *= scale;
  }
  if (rotation_.has_value()) rotation_->Apply(scratch.components.data());
}

void ScalarQuantizer::Encode(const std::byte* row, std::byte* code, Scratch& scratch) const {
  Read(row, scratch);
  const std::size_t dim = dims(), padded = (dim + 7) / 8 * 8;
  scratch.levels.resize(padded);
  const float most = bits_ == 8 ? 255 : 15, per_step = 1 / step_;
  const float* const components = scratch.components.data();
  const float* const lowest = lowest_.data();
  std::uint8_t* const levels = scratch.levels.data();
  for (std::size_t d = 0; d < dim; ++d) {
    const float at = (components[d] - lowest[d]) * per_step + 0.5f;
    levels[d] = static_cast<std::uint8_t>(static_cast<int>(at > 0 ? std::min(at, most) : 0));
  }
  if (bits_ == 4) return PackLevels(levels, padded, 4, code);
  for (std::size_t d = 0; d < dim; ++d) code[d] = static_cast<std::byte>(levels[d] ^ 0x80);
}

void ScalarQuantizer::EncodeQuery(const std::byte* query, std::byte* out, Scratch& scratch) const {
  Read(query, scratch);
  const std::size_t dim = dims(), padded = (dim + 7) / 8 * 8;
  scratch.query.assign(padded, 0);
  const float* const components = scratch.components.data();
  if (kernels_.metric == Metric::kInnerProduct) {
    float largest = 0;
    for (std::size_t d = 0; d < dim; ++d) largest = std::max(largest, std::abs(components[d]));
    const float scale = largest > 0 ? 127 / largest : 0;
    for (std::size_t d = 0; d < dim; ++d) scratch.query[d] = Rounded(components[d] * scale);
  } else {
    const float per_unit = (bits_ == 8 ? 1 : kQueryUnits) / step_, from = bits_ == 8 ? 128 : 0;
    const float* const lowest = lowest_.data();
    std::int8_t* const levels = scratch.query.data();
    for (std::size_t d = 0; d < dim; ++d)
      levels[d] = Rounded((components[d] - lowest[d]) * per_unit - from);
  }
  if (bits_ == 8) {
    std::memcpy(out, scratch.query.data(), dim);
    return;
  }
  std::int32_t norm = 0;
  for (const std::int8_t component : scratch.query) norm += component * component;
  LayOutQuery(scratch.query.data(), padded, 4, scratch.blocks);
  std::memcpy(out, scratch.blocks.data(), query_bytes_ - sizeof(norm));
  std::memcpy(out + query_bytes_ - sizeof(norm), &norm, sizeof(norm));
}

DistanceKey ScalarQuantizer::Margin(const std::byte* query, DistanceKey key) const {
  const float distance = code_kernels_.ToDistance(key);
  const float units = bits_ == 8 ? 1 : kQueryUnits;
  float error = 0;
  if (kernels_.metric != Metric::kInnerProduct) {
    error = 2 * std::sqrt(distance * (units * units * variance_ + 1.0f / 12));
  } else {
    // Rounding the query adds less error: its components are levels of 8 bits.
    float norm = 0;
    for (std::uint32_t at = 0; at < query_bytes_ - (bits_ == 4 ? sizeof(std::int32_t) : 0); ++at) {
      const auto component = static_cast<float>(static_cast<std::int8_t>(query[at]));
      norm += component * component;
    }
    error = std::sqrt(2 * norm * variance_);
  }
  return code_kernels_.ToKey(distance + 3 * error);
}

}  // namespace hmann
