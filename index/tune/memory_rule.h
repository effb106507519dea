#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "index/tune/plan_structure.h"

namespace hmann {

struct PlanRequest {
  PlanShape shape;
  std::uint64_t fast_bytes = 0;
  std::string slow = "nvme";  ///< tier of L0, of unlimited size, in MakeTier's syntax
  int threads = 1;            ///< searching at once: their scratch comes off the fast memory
  /// Pinned by the user.
  std::optional<double> promote;
  std::optional<std::uint32_t> bits, replicas;
  /// Set for a finished index: its structure is fixed, and only its placement is chosen.
  std::optional<PlanStructure> finished;
  std::uint64_t attribute_bytes = 0;  ///< of the vectors' attributes, in fast memory
};

/// Bytes of a structure and the tier that it should lie on.
struct PlacedBytes {
  std::string structure, tier;
  std::uint64_t bytes = 0;
};

/// An index and its placement. Upper layers, promoted vectors and codes lie together on
/// one tier (`--fast`), L0 as a whole on one (`--slow`). Copies of L0's records of
/// highest degree lie in fast memory (`--cache static --cache-size`). Index::Open
/// supports all of it.
struct MemoryPlan {
  PlanStructure structure;
  std::string fast_tier, l0_tier;
  std::uint64_t cache_bytes = 0;        ///< of copies, without their index
  double cached_share = 0;              ///< of L0's blocks
  std::uint64_t read_buffer_bytes = 0;  ///< per searching thread, if L0 is on a drive
  std::vector<PlacedBytes> bytes;
  std::uint64_t reserve_bytes = 0;  ///< of fast memory: ReservedFastBytes and attributes
  std::uint64_t fast_bytes = 0;     ///< with the reserve, structures in whole pages
  std::uint64_t file_bytes = 0;
  std::vector<std::string> rule;  ///< the three lines of the rule, with their numbers
};

/// Applies the rule (doc/planning.md):
///
/// 1. L0 lies in fast memory if all of it fits there, otherwise on the slow tier.
///
/// 2. Codes come next, with the most bits that leave enough of the fast memory. This
/// applies to a drive, and to wide vectors on memory; narrow ones there get codes only if
/// much is left.
///
/// 3. The rest is for promoted nodes, as many as fit. A static cache of a drive comes
/// last.
///
/// Pure. Errors: INVALID_ARGUMENT (shape, slow tier); RESOURCE_EXHAUSTED naming the
/// smallest fast memory that would do.
absl::StatusOr<MemoryPlan> PlanMemory(const PlanRequest& request);

}  // namespace hmann
