#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann {

/// The nearest neighbours of each query, nearest first.
struct GroundTruth {
  std::uint32_t n = 0;             ///< queries
  std::uint32_t k = 0;             ///< neighbours a query
  std::vector<std::uint64_t> ids;  ///< n x k, row-major; kNoNeighbour where a query has fewer
  std::vector<float>
      distances;  ///< n x k, as hmann reports them (squared L2, ...); empty if the file has none

  std::span<const std::uint64_t> Ids(std::uint64_t query) const {
    return {ids.data() + query * k, k};
  }
  /// Empty if there are no distances.
  std::span<const float> Distances(std::uint64_t query) const {
    return distances.empty() ? std::span<const float>()
                             : std::span<const float>(distances.data() + query * k, k);
  }
};

constexpr std::uint64_t kNoNeighbour = 0xffffffff;  ///< -1 in files

/// How dense a data set is around queries, of squared L2 distances to their nearest.
struct Density {
  double tenth = 0;  ///< median distance (not squared) of the 10th neighbour
  /// Median of the maximum-likelihood estimate of local intrinsic dimension from all k
  /// neighbours (Levina and Bickel 2004). Of queries whose nearest lies on them: without.
  double intrinsic_dim = 0;
};

/// nullopt without distances, of fewer than 10 neighbours, or where a distance is
/// negative.
std::optional<Density> DensityOf(const GroundTruth& truth);

/// Reads `.ivecs` (ids), `.hdf5` (`neighbors` and `distances`; euclidean distances are
/// squared) and, under any other name, u32 n, u32 k, n * k u32 ids and perhaps n * k f32
/// distances: whether they are there is told by the size. Errors: as open(2);
/// INVALID_ARGUMENT naming both sizes for a short or long file, n or k 0, rows of
/// different k, a NaN distance.
absl::StatusOr<GroundTruth> ReadGroundTruth(const std::string& path);

/// Writes `.ivecs` or `.ibin` (ids only) or, under any other name, ids and, if there are
/// any, distances. Whole or not at all. Errors: INVALID_ARGUMENT for an empty truth or an
/// id that needs more than 32 bits (31 in .ivecs and .ibin); as AtomicFile.
absl::Status WriteGroundTruth(const std::string& path, const GroundTruth& truth);

}  // namespace hmann
