#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "index/construct/bounded.h"
#include "index/tune/plan_structure.h"

namespace hmann {

/// What a build of such an index will take, from vectors.
struct BuildEstimate {
  std::uint64_t memory_bytes = 0;  ///< at its highest
  std::uint64_t file_bytes = 0;
  double cpu_seconds = 0;
  double seconds = 0;  ///< of all threads together, by the clock
  /// Within the planned fast memory, where L0 is made by partition.
  std::optional<BoundedPlan> bounded;
};

/// `memory`: that a bounded build would be given. Distances of an insertion grow with log
/// n and ef_construction, those of the refinement (alpha above 1, distances that have
/// multiples) with M; those of a partition with n's own share of its splits, all at a
/// usual machine's time for one. Errors: those of ChooseKernels.
absl::StatusOr<BuildEstimate> EstimateBuild(const PlanShape& shape, const PlanStructure& structure,
                                            int threads, std::uint64_t memory = 0);

}  // namespace hmann
