#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "hmann/build.h"
#include "index/tune/memory_rule.h"

namespace hmann {

/// A planning request as the user states it.
struct PlanInput {
  /// With its inputs, or with `rows` vectors that do not exist yet, of `dim` and of its
  /// dtype, by default u8.
  BuildOptions build;
  PlanOptions plan;
  std::uint32_t dim = 0;
  bool as_is = false;  ///< build.from_index keeps its structure
};

struct PlanReport {
  PlanRequest request;
  MemoryPlan plan;
  BuildEstimate build;
  /// For the build: the fast memory, or more if none works within that.
  std::uint64_t build_memory = 0;
};

/// Plans, and estimates the cost of the build. Reads headers, and the attributes of a
/// finished index. Errors: those of the files and of PlanMemory; INVALID_ARGUMENT if
/// nothing says what will be indexed; FAILED_PRECONDITION for an index as it is that has
/// no promoted nodes.
absl::StatusOr<PlanReport> ReportPlan(const PlanInput& input);

}  // namespace hmann
