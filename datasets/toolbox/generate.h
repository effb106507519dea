/// Synthetic vectors of a known character: for tests, for planning, and for studying what
/// a data set does to an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/distance.h"
#include "hmann/progress.h"

namespace hmann {

enum class Shape : std::uint8_t {
  /// Clusters that each span few directions: low intrinsic dimension, as real descriptors
  /// have.
  kClustered,
  kUniform,    ///< independent uniform components: intrinsic dimension = dim, the hardest
  kCentroids,  ///< a normal cloud; 1 % near its center are neighbors of all others
  /// Clustered, but every second vector exactly copies an earlier one, some many times.
  kDuplicates,
  /// The points of a grid with step 1 in the first components, zeros behind: all
  /// distances are arithmetic.
  kLattice,
};
/// Returns "clustered", "uniform", "centroids", "duplicates" or "lattice".
std::string_view Name(Shape shape);
absl::StatusOr<Shape> ParseShape(std::string_view name);

struct GenerateOptions {
  Shape shape = Shape::kClustered;
  std::uint64_t n = 0;
  /// Number of the first vector: queries are vectors that the base does not hold.
  std::uint64_t first = 0;
  std::uint32_t dim = 0;
  std::uint32_t intrinsic_dim = 12;  ///< clustered and duplicates: directions that a cluster spans
  std::uint32_t clusters = 256;      ///< clustered and duplicates
  /// Lattice: points per axis. 0: 128 on as few axes (at least three) as hold first + n
  /// points.
  std::uint32_t side = 0;
  double norm_sigma = 0;  ///< only for f32: see NormSpread
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: UsableCores(); the vectors do not depend on it

  /// Errors: INVALID_ARGUMENT naming the option.
  absl::Status Validate() const;
};

/// The cluster of vector i of kClustered.
std::uint64_t ClusterOf(const GenerateOptions& options, std::uint64_t i);

/// Vector i of a set is a function of (options, i) alone. Floats lie around [0, 1]; u8
/// scales that to 0..255 and i8 to -128..127, clamped. A lattice has whole coordinates in
/// every dtype. Thread-safe.
class Generator {
 public:
  /// Errors: as Validate; INVALID_ARGUMENT if the lattice has fewer points than requested
  /// or the dtype cannot count its side.
  static absl::StatusOr<Generator> Make(const GenerateOptions& options, DType dtype);

  /// Writes vector i to `row`: dim components, unaligned.
  void Row(std::uint64_t i, std::byte* row) const;

 private:
  void ClusteredRow(std::uint64_t i, double* out) const;

  GenerateOptions options_;
  DType dtype_ = DType::kF32;
  std::uint32_t side_ = 0, axes_ = 0;
  std::vector<float> directions_;  ///< kDirections x dim
};

/// Writes vectors first .. first + n - 1 to a vector file, whose suffix selects the
/// dtype. Errors: as Generator::Make and VectorWriter.
absl::Status Generate(const GenerateOptions& options, const std::string& path, Progress& progress);

}  // namespace hmann
