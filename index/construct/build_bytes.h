#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "hmann/build_options.h"
#include "index/base/units.h"
#include "index/graph/types.h"

namespace hmann {

/// What the memory of a build follows from.
struct BuildShape {
  NodeId n = 0, n1 = 0;
  std::uint32_t m = 0, dim = 0;
  std::uint64_t stride = 0;  ///< of a stored vector in memory
  std::uint32_t bits = 0, replicas = 1;
  bool user_labels = false;
  bool finished_graph = false;  ///< L0 comes with the inputs: an index to promote, or an import
  BuildMethod method = BuildMethod::kInsertion;
  bool inner_product = false;  ///< centroids are found in upper layers of their own
};

/// For vectors that a build in memory copies from where they lie, where more at once
/// would be no use: for cells, and on their way into the index.
constexpr std::uint64_t kCopyRoom = 16_MiB;

/// Anonymous memory that a build in memory takes at its highest, the inputs' mapped files
/// not counted: the largest of what is alive in each phase, if every vector has one copy
/// (their groups are part of it), and 64 MiB for scratch of threads and batches.
std::uint64_t BuildBytes(const BuildShape& shape);

/// That this process may have them. Errors: RESOURCE_EXHAUSTED naming both.
absl::Status CheckBuildBytes(const BuildShape& shape);

}  // namespace hmann
