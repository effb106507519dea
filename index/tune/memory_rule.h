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
  std::string slow = "nvme";  ///< tier of L0, of unlimited size, as MakeTier takes it
  int threads = 1;            ///< that search at once: their scratch comes off the fast memory
  /// Pinned by the user.
  std::optional<double> promote;
  std::optional<std::uint32_t> bits, replicas;
  /// The structure is that of a finished index; only where it lies is chosen.
  std::optional<PlanStructure> finished;
};

/// Bytes of something and where it shall lie.
struct PlacedBytes {
  std::string structure, tier;
  std::uint64_t bytes = 0;
};

/// An index and where it lies. Index::Open can do all of it: upper layers, promoted
/// vectors and codes together on one tier (`--fast`), L0 as a whole on one (`--slow`),
/// and copies of L0's records of highest degree in fast memory (`--cache static
/// --cache-size`).
struct PlacementPlan {
  PlanStructure structure;
  std::string fast_tier, l0_tier;
  std::uint64_t cache_bytes = 0;      ///< of copies, their index not included
  double cached_share = 0;            ///< of L0's blocks
  std::uint64_t migration_bytes = 0;  ///< of each searching thread, where L0 is on a drive
  std::vector<PlacedBytes> bytes;
  std::uint64_t reserve_bytes = 0;  ///< of fast memory: migration space and scratch
  std::uint64_t fast_bytes = 0;     ///< with the reserve, structures in whole pages
  std::uint64_t file_bytes = 0;
  std::vector<std::string> rule;  ///< the three lines of the rule, with their numbers
};

/// The rule (doc/planning.md):
/// 1. L0 lies in fast memory if all of it fits there, else on the slow tier.
/// 2. Codes come first, the most bits that leave enough of the fast memory: on a drive,
///    and of wide vectors on memory; of narrow ones there only where much is left.
/// 3. The rest is for promoted nodes, as many as fit; a static cache of a drive is last.
/// Pure. Errors: INVALID_ARGUMENT (shape, slow tier); RESOURCE_EXHAUSTED naming the
/// smallest fast memory that would do.
absl::StatusOr<PlacementPlan> PlanPlacement(const PlanRequest& request);

}  // namespace hmann
