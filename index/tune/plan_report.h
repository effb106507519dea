#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "hmann/build.h"
#include "hmann/tune.h"
#include "index/tune/memory_rule.h"

namespace hmann {

/// What is to be planned, as a user says it.
struct PlanInput {
  BuildOptions build;  ///< of its inputs, or of `rows` vectors that there are not yet, of `dim`
                       ///< and of its dtype, by default u8
  PlanOptions plan;
  std::uint32_t dim = 0;
  bool as_is = false;  ///< build.from_index keeps its structure
};

struct PlanReport {
  PlanRequest request;
  PlacementPlan plan;
  BuildEstimate build;
};

/// Plans, and says what the build would take. Reads headers only. Errors: those of the
/// files and of PlanPlacement; INVALID_ARGUMENT where nothing says what will be indexed;
/// FAILED_PRECONDITION for an index as it is in which nothing is promoted.
absl::StatusOr<PlanReport> ReportPlan(const PlanInput& input);

}  // namespace hmann
