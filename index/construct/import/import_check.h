#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "datasets/vector_file.h"
#include "hmann/distance.h"
#include "index/construct/import/import_reader.h"
#include "index/graph/types.h"

namespace hmann {

/// Compares vectors that a foreign file stores with the rows of the base. Not
/// thread-safe: keeps scratch.
class StoredVectorCheck {
 public:
  /// `stored`: type of the stored components. kU8 requires a u8 base and is compared byte
  /// by byte.
  StoredVectorCheck(const VectorFile& base, Metric metric, DType stored)
      : base_(base), metric_(metric), stored_(stored) {}

  /// `offset`: position of `vector` in the file. Errors: INVALID_ARGUMENT naming row and
  /// component (also for a zero vector under cosine).
  absl::Status Check(const ImportReader& reader, std::uint64_t row, const std::byte* vector,
                     std::uint64_t offset);

 private:
  absl::Status LoadExpected(std::uint64_t row);

  const VectorFile& base_;
  Metric metric_;
  DType stored_;
  std::vector<float> expected_;  ///< the base's row as the file should hold it
};

/// Checks the links of `node`, as ids of the file at `offset`: below n, no self-link, no
/// duplicate. Errors: DATA_LOSS.
absl::Status CheckLinks(const ImportReader& reader, std::uint64_t offset, NodeId node,
                        std::span<const NodeId> links, NodeId n);

/// Check that hmann can take over M and efConstruction, read at their offsets. Errors:
/// INVALID_ARGUMENT.
absl::Status CheckM(const ImportReader& reader, std::uint64_t offset, std::uint64_t m);
absl::Status CheckEfConstruction(const ImportReader& reader, std::uint64_t offset,
                                 std::uint64_t ef_construction);

}  // namespace hmann
