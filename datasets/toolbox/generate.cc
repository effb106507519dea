#include "datasets/toolbox/generate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "datasets/toolbox/norm_spread.h"
#include "datasets/vector_writer.h"
#include "index/base/errors.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/distance/half.h"

namespace hmann {
namespace {

constexpr std::array<std::pair<Shape, std::string_view>, 5> kNames = {
    {{Shape::kClustered, "clustered"},
     {Shape::kUniform, "uniform"},
     {Shape::kCentroids, "centroids"},
     {Shape::kDuplicates, "duplicates"},
     {Shape::kLattice, "lattice"}}};
constexpr std::uint32_t kDirections = 64;  ///< shared: clusters choose theirs among these
constexpr double kClusterRadius = 0.12;
constexpr double kCloudRadius = 0.12;  ///< per component
constexpr double kCentroidShare = 0.01;
constexpr double kCentroidRadius = 0.1;      ///< relative to that of the cloud
constexpr std::uint32_t kDefaultSide = 128;  ///< fits every dtype

/// Streams of one seed: each use of a number has its own.
enum Stream : std::uint64_t {
  kComponents = 1,
  kCenters,
  kDirectionsOf,
  kChoice,
  kCoefficients,
  kCopies,
  kRadius,
  kDirectionValues
};
std::uint64_t StreamOf(std::uint64_t seed, Stream stream) { return Random(seed, stream); }

/// The vector that `i` repeats, or i itself. Odd numbers repeat an even one below. The
/// fourth power makes some repeat often.
std::uint64_t Original(std::uint64_t seed, std::uint64_t i) {
  if (i % 2 == 0) return i;
  const double u = RandomUnit(StreamOf(seed, kCopies), i);
  return 2 * static_cast<std::uint64_t>(u * u * u * u * static_cast<double>((i + 1) / 2));
}

void StoreFloat(DType dtype, float value, std::byte* row, std::uint32_t c) {
  const Half half = Half::Nearest(value);
  if (dtype == DType::kF16) std::memcpy(row + c * sizeof(half), &half, sizeof(half));
  if (dtype == DType::kF32) std::memcpy(row + c * sizeof(value), &value, sizeof(value));
}

void Store(DType dtype, double value, std::byte* row, std::uint32_t c) {
  if (IsFloat(dtype)) return StoreFloat(dtype, static_cast<float>(value), row, c);
  const double level = std::clamp(std::floor(value * 255 + 0.5), 0.0, 255.0);
  row[c] = static_cast<std::byte>(static_cast<int>(level) - (dtype == DType::kI8 ? 128 : 0));
}

void StoreWhole(DType dtype, std::uint32_t value, std::byte* row, std::uint32_t c) {
  if (IsFloat(dtype)) return StoreFloat(dtype, static_cast<float>(value), row, c);
  row[c] = static_cast<std::byte>(value);
}

}  // namespace

std::string_view Name(Shape shape) { return kNames[static_cast<std::size_t>(shape)].second; }

absl::StatusOr<Shape> ParseShape(std::string_view name) {
  for (const auto& [shape, known] : kNames) {
    if (known == name) return shape;
  }
  return InvalidArgument("kind \"", std::string(name),
                         "\" found, clustered, uniform, centroids, duplicates or lattice expected");
}

absl::Status GenerateOptions::Validate() const {
  const auto bad = [](const char* option, std::uint64_t found, std::uint64_t least,
                      std::uint64_t most) {
    return InvalidArgument(option, ": ", found, " found, ", least, " to ", most, " expected");
  };
  constexpr std::uint64_t kMostRows = 0xffffffff;
  if (n == 0 || n > kMostRows) return bad("n", n, 1, kMostRows);
  if (first > kMostRows) return bad("first", first, 0, kMostRows);
  if (dim == 0 || dim > kMaxDim) return bad("dim", dim, 1, kMaxDim);
  if (intrinsic_dim == 0 || intrinsic_dim > kDirections)
    return bad("intrinsic dimension", intrinsic_dim, 1, kDirections);
  if (clusters == 0) return bad("clusters", clusters, 1, 0xffffffff);
  if (threads < 0) return InvalidArgument("threads: ", threads, " found, at least 0 expected");
  return absl::OkStatus();
}

absl::StatusOr<Generator> Generator::Make(const GenerateOptions& options, DType dtype) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  Generator generator;
  generator.options_ = options;
  generator.dtype_ = dtype;
  if (options.shape == Shape::kLattice) {
    const std::uint32_t most_side = dtype == DType::kU8    ? 256
                                    : dtype == DType::kI8  ? 128
                                    : dtype == DType::kF16 ? 2048
                                                           : 1u << 20;
    generator.side_ = options.side == 0 ? kDefaultSide : options.side;
    if (generator.side_ < 2 || generator.side_ > most_side) {
      return InvalidArgument("side: ", generator.side_, " found, 2 to ", most_side, " expected");
    }
    const std::uint64_t wanted = options.first + options.n;
    std::uint64_t points = 1;
    for (generator.axes_ = 0; generator.axes_ < options.dim &&
                              (generator.axes_ < 3 || points < wanted) && points < 1ull << 40;
         ++generator.axes_) {
      points *= generator.side_;
    }
    if (points < wanted) {
      return InvalidArgument("lattice: ", points, " points with side ", generator.side_,
                             " in dimension ", options.dim, ", ", wanted, " asked for");
    }
  }
  if (options.shape == Shape::kClustered || options.shape == Shape::kDuplicates) {
    generator.directions_.resize(std::size_t{kDirections} * options.dim);
    const std::uint64_t stream = StreamOf(options.seed, kDirectionValues);
    for (std::size_t j = 0; j < generator.directions_.size(); ++j)
      generator.directions_[j] = static_cast<float>(RandomNormal(stream, j));
  }
  return generator;
}

std::uint64_t ClusterOf(const GenerateOptions& options, std::uint64_t i) {
  return RandomBelow(StreamOf(options.seed, kChoice), i, options.clusters);
}

void Generator::ClusteredRow(std::uint64_t i, double* out) const {
  const std::uint64_t seed = options_.seed;
  const std::uint64_t cluster = ClusterOf(options_, i);
  const std::uint64_t centers = StreamOf(seed, kCenters);
  for (std::uint32_t c = 0; c < options_.dim; ++c)
    out[c] = 0.25 + 0.5 * RandomUnit(centers, cluster * options_.dim + c);
  const double scale = kClusterRadius / std::sqrt(static_cast<double>(options_.intrinsic_dim));
  for (std::uint32_t j = 0; j < options_.intrinsic_dim; ++j) {
    const std::uint64_t direction = RandomBelow(StreamOf(seed, kDirectionsOf),
                                                cluster * options_.intrinsic_dim + j, kDirections);
    const double coefficient =
        scale * RandomNormal(StreamOf(seed, kCoefficients), i * options_.intrinsic_dim + j);
    const float* values = directions_.data() + direction * options_.dim;
    for (std::uint32_t c = 0; c < options_.dim; ++c) out[c] += coefficient * values[c];
  }
}

void Generator::Row(std::uint64_t i, std::byte* row) const {
  const std::uint32_t dim = options_.dim;
  if (options_.shape == Shape::kLattice) {
    for (std::uint32_t c = 0; c < dim; ++c) {
      StoreWhole(dtype_, c < axes_ ? static_cast<std::uint32_t>(i % side_) : 0, row, c);
      if (c < axes_) i /= side_;
    }
    return;
  }
  const std::uint64_t components = StreamOf(options_.seed, kComponents);
  if (options_.shape == Shape::kUniform) {
    for (std::uint32_t c = 0; c < dim; ++c)
      Store(dtype_, RandomUnit(components, i * dim + c), row, c);
    return;
  }
  if (options_.shape == Shape::kCentroids) {
    const bool centroid = RandomUnit(StreamOf(options_.seed, kRadius), i) < kCentroidShare;
    const double radius = kCloudRadius * (centroid ? kCentroidRadius : 1);
    for (std::uint32_t c = 0; c < dim; ++c)
      Store(dtype_, 0.5 + radius * RandomNormal(components, i * dim + c), row, c);
    return;
  }
  thread_local std::vector<double> values;
  values.resize(dim);
  ClusteredRow(options_.shape == Shape::kDuplicates ? Original(options_.seed, i) : i,
               values.data());
  for (std::uint32_t c = 0; c < dim; ++c) Store(dtype_, values[c], row, c);
}

absl::Status Generate(const GenerateOptions& options, const std::string& path, Progress& progress) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  HMANN_ASSIGN_OR_RETURN(const DType dtype, DTypeOfSuffix(path));
  HMANN_ASSIGN_OR_RETURN(const Generator generator, Generator::Make(options, dtype));
  HMANN_ASSIGN_OR_RETURN(const NormSpread spread,
                         NormSpread::Make(options.norm_sigma, options.seed, path, dtype));
  return WriteMadeRows(
      path, options.dim, options.n, options.threads,
      [&](std::uint64_t i, std::byte* row) {
        generator.Row(options.first + i, row);
        spread.Apply(options.first + i, options.dim, row);
      },
      progress);
}

}  // namespace hmann
