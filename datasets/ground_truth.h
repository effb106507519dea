#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/types.h"

namespace hmann {

/// The nearest neighbors of each query, nearest first.
struct GroundTruth {
  std::uint32_t n = 0;             ///< queries
  std::uint32_t k = 0;             ///< neighbors per query
  std::vector<std::uint64_t> ids;  ///< n x k, row-major; kNoNeighbor where a query has fewer
  /// n x k, as hmann reports them (squared L2, ...). Empty if the file has none.
  std::vector<float> distances;
  /// Decides which distances are equal but for rounding (RecallAtK). No file stores it.
  Metric metric = Metric::kL2;

  std::span<const std::uint64_t> Ids(std::uint64_t query) const {
    return {ids.data() + query * k, k};
  }
  /// Empty if there are no distances.
  std::span<const float> Distances(std::uint64_t query) const {
    return distances.empty() ? std::span<const float>()
                             : std::span<const float>(distances.data() + query * k, k);
  }
};

/// The size of a distance that is not 0, but would be as an f32: a tie with nothing.
constexpr float kVanished = std::numeric_limits<float>::denorm_min();
constexpr std::uint64_t kNoNeighbor = 0xffffffff;  ///< -1 in files

/// The density of a data set around queries, from squared L2 distances to their nearest
/// neighbors.
struct Density {
  double tenth = 0;  ///< median distance (not squared) of the 10th neighbor
  /// Median over queries of the maximum-likelihood estimate of local intrinsic dimension
  /// from all k neighbors (Levina and Bickel 2004). Queries with a neighbor at distance 0
  /// are left out.
  double intrinsic_dim = 0;
};

/// Returns nullopt without distances, for fewer than 10 neighbors of a query, or if a
/// distance is negative.
std::optional<Density> DensityOf(const GroundTruth& truth);

/// Reads `.ivecs` (ids) and `.hdf5` (`neighbors` and `distances`; euclidean distances are
/// squared). Under any other name the format is u32 n, u32 k, n * k u32 ids and
/// optionally n * k f32 distances; the file size tells whether these exist. Errors: as
/// open(2); INVALID_ARGUMENT naming both sizes for a short or long file, n or k 0, rows
/// of different k, a NaN distance.
absl::StatusOr<GroundTruth> ReadGroundTruth(const std::string& path);

/// Writes `.ivecs` or `.ibin` (ids only). Under any other name it writes ids and, if
/// there are any, distances. The file appears whole or not at all. Errors:
/// INVALID_ARGUMENT for an empty truth or an id that needs more than 32 bits (31 in
/// .ivecs and .ibin); as AtomicFile.
absl::Status WriteGroundTruth(const std::string& path, const GroundTruth& truth);

}  // namespace hmann
