#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "hmann/build_options.h"
#include "index/base/units.h"
#include "index/graph/types.h"

namespace hmann {

/// The quantities that determine the memory of a build.
struct BuildShape {
  NodeId n = 0, n1 = 0;
  std::uint32_t m = 0, dim = 0;
  std::uint64_t stride = 0;  ///< of a stored vector in memory
  std::uint32_t bits = 0, replicas = 1;
  bool user_labels = false;
  bool finished_graph = false;  ///< L0 comes with the inputs: an index to promote, or an import
  bool imported = false;        ///< the latter: its links are not packed
  BuildMethod method = BuildMethod::kInsertion;
  bool inner_product = false;  ///< centroids are found in upper layers of their own
};

/// Room for vectors that a build in memory copies from where they lie: for cells, and on
/// their way into the index. More room would bring nothing.
constexpr std::uint64_t kCopyRoom = 16_MiB;

/// Peak anonymous memory of a build in memory, without the inputs' mapped files. It is
/// the largest sum of what is alive in one phase, plus 64 MiB for scratch of threads and
/// batches. It assumes that every vector has one copy; the groups of copies are included.
std::uint64_t BuildBytes(const BuildShape& shape);

/// Checks that this process may take that much. Errors: RESOURCE_EXHAUSTED naming both.
absl::Status CheckBuildBytes(const BuildShape& shape);

}  // namespace hmann
