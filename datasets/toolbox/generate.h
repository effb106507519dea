/// Made-up vectors whose character is known: for tests, for planning, for looking at what
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
  kClustered,   ///< clusters that each span few directions: low intrinsic dimension, as real
                ///< descriptors have
  kUniform,     ///< independent uniform components: intrinsic dimension = dim, the hardest
  kCentroids,   ///< a normal cloud in which 1 % of the vectors lie near its centre, where they are
                ///< neighbours of all others
  kDuplicates,  ///< clustered, but every second vector is an exact copy of an earlier one, some of
                ///< them many times
  kLattice,     ///< the points of a grid with step 1 in the first components, zeros behind: all
                ///< distances are arithmetic
};
std::string_view Name(
    Shape shape);  ///< "clustered", "uniform", "centroids", "duplicates", "lattice"
absl::StatusOr<Shape> ParseShape(std::string_view name);

struct GenerateOptions {
  Shape shape = Shape::kClustered;
  std::uint64_t n = 0;
  std::uint64_t first =
      0;  ///< number of the first vector: queries are vectors that the base does not hold
  std::uint32_t dim = 0;
  std::uint32_t intrinsic_dim = 12;  ///< clustered and duplicates: directions that a cluster spans
  std::uint32_t clusters = 256;      ///< clustered and duplicates
  std::uint32_t side = 0;  ///< lattice: points along each axis; 0: 128 on as few axes as hold first
                           ///< + n points, three at least
  double norm_sigma = 0;   ///< f32 alone: see NormSpread
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: UsableCores(); the vectors do not depend on it

  /// Errors: INVALID_ARGUMENT naming the option.
  absl::Status Validate() const;
};

/// Vector i of a set is a function of (options, i) alone. Floats lie around [0, 1]; u8
/// scales that to 0..255 and i8 to -128..127, clamped. A lattice has whole coordinates in
/// every dtype. Thread-safe.
class Generator {
 public:
  /// Errors: as Validate; INVALID_ARGUMENT when the lattice has fewer points than asked
  /// for or the dtype cannot count its side.
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

/// Writes vectors first .. first + n - 1 to a vector file; its suffix says the dtype.
/// Errors: as Generator::Make and VectorWriter.
absl::Status Generate(const GenerateOptions& options, const std::string& path, Progress& progress);

}  // namespace hmann
