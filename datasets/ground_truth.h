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
constexpr std::uint64_t kNoNeighbor = ~std::uint64_t{0};  ///< -1 in files
/// An id of a file with ids of 32 bits.
constexpr std::uint64_t IdOfFile(std::uint32_t id) { return id == 0xffffffff ? kNoNeighbor : id; }

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
/// squared). Under any other name the format is u32 n, u32 k, n * k ids and n * k f32
/// distances. The file size tells which of three forms this is: ids of u32 (4 bytes a
/// neighbor), with distances (8), ids of u64 with distances (12). Errors: as open(2);
/// INVALID_ARGUMENT naming the sizes for a short or long file, n or k 0, rows of
/// different k, a NaN distance.
absl::StatusOr<GroundTruth> ReadGroundTruth(const std::string& path);

/// Writes `.ivecs` or `.ibin` (ids only). Under any other name it writes ids and, if
/// there are any, distances; ids of u64 if one is above 2^32 - 2, which needs distances.
/// The file appears whole or not at all. Errors: INVALID_ARGUMENT for an empty truth or
/// an id that does not fit (31 bits in .ivecs and .ibin); as AtomicFile.
absl::Status WriteGroundTruth(const std::string& path, const GroundTruth& truth);

/// Merges the neighbors of the same queries in parts of a base: of each query the `k`
/// nearest, each id once, ties by id. Errors: INVALID_ARGUMENT for no part, parts of
/// different queries or without distances.
absl::StatusOr<GroundTruth> MergeNeighbors(std::span<const GroundTruth> parts, std::uint32_t k);

}  // namespace hmann
