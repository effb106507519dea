#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "index/base/progress.h"
#include "index/hmann.h"
#include "index/tune/placement_choices.h"

namespace hmann {

/// What a finished index tells the planner.
struct IndexToPlan {
  PlanShape shape;
  PlanStructure structure;
  std::uint64_t file_bytes = 0;
};
/// From its header. Errors: those of ReadInfo; FAILED_PRECONDITION where nothing is
/// promoted.
absl::StatusOr<IndexToPlan> DescribeIndex(const std::string& path);

/// The work of up to 200 queries on the index, served from its file, as factors on
/// DefaultCounts; and which share of their slow reads caches of several sizes answer,
/// where L0 has at most 2 GiB. `queries`: vector file; empty: its vectors, left out in
/// turn, by MakeLearningSet. `block_tier`: with the dials that are the default there.
/// Errors: those of Index::Open, of the file, and of searches.
absl::StatusOr<CountScale> SampleCounts(const std::string& path, const std::string& queries,
                                        bool block_tier, Progress& progress);

/// Opens the index as `plan` says, its slow tier replaced by the mapped file, and asks
/// the kernel what memory that took; and adds the plan's reserve. The allocator's
/// high-water mark, for PlanAgainst. Errors: those of Index::Open and /proc.
absl::StatusOr<std::uint64_t> MeasureFastBytes(const std::string& path, const PlacementPlan& plan);

}  // namespace hmann
