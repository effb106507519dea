/// Plan and build an index, as `hmann plan` and `hmann build` do.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "hmann/calibration.h"
#include "hmann/progress.h"

namespace hmann {

/// What an index is planned for.
struct PlanOptions {
  std::uint64_t fast_memory_bytes = 0;
  std::string slow = "nvme";  ///< tier that L0 will lie on, of any size, as MakeTier takes it
  int threads =
      0;  ///< that search at once, whose scratch comes off the fast memory; 0: UsableCores()
};

/// Where the structures of a planned index go, for OpenOptions.
struct PlannedPlacement {
  std::string structure;  ///< "16 % promoted, 2 bits, replicas 1"
  std::string fast, slow;
  std::uint64_t cache_bytes = 0;  ///< of a static cache; 0: none
};

struct PlannedBuild {
  BuildOptions build;  ///< with promote, bits and replicas of the plan
  PlannedPlacement placement;
};

/// Which index of the inputs of `build` to make for so much fast memory: `hmann build
/// --fast-memory` and `promote --fast-memory` are Plan, then Build. What `build` says of
/// promote, bits and replicas is kept. Reads headers only, and measures nothing: the same
/// options and number of threads give the same plan.
/// Errors: those of opening the inputs and of PlanPlacement; RESOURCE_EXHAUSTED naming
/// the smallest fast memory that would do.
absl::StatusOr<PlannedBuild> Plan(const BuildOptions& build, const PlanOptions& options);

/// What the default dials of an index are set by.
struct CalibrateOptions {
  bool wanted = true;
  std::string queries{};  ///< vector file of queries that are like those to come; empty: vectors of
                          ///< the index, each searched as if it were not there
  std::uint64_t learn = 0;  ///< queries of each k, at most; 0: what is needed
  int threads = 0;          ///< 0: UsableCores(); Build takes those of the build
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned; Build takes that of the build
};

/// What `hmann build` and `hmann promote` (from_index) are told.
struct BuildCall {
  BuildOptions build;
  PlanOptions plan;  ///< with fast memory, which then says what `build` does not
  CalibrateOptions calibrate;
};

struct CalibratedBuild {
  BuildReport report;
  absl::StatusOr<Calibration> calibration;  ///< the index is whole even where this failed
};

/// Where fast memory is given: what the rule makes of it, into call->build, and as a line
/// for the eye. Errors: those of Plan; INVALID_ARGUMENT for a promote beside it.
absl::StatusOr<std::string> ChooseStructure(BuildCall* call);

/// Builds an index by Algorithm 1 and writes it to build.out (of from_index: by default
/// to itself), whole or not at all, as `hmann build` does: chooses its structure where
/// fast memory is given; then finds how far the default dials have to be scaled on this
/// index for a recall, and stores that beside it, as Tune does its dials. Deterministic:
/// the same input, options (but threads) and version give the same bytes. Until
/// build.cancelled. Errors: those of ChooseStructure; INVALID_ARGUMENT (options,
/// malformed or non-finite data, zero vector under cosine), NOT_FOUND, RESOURCE_EXHAUSTED
/// (memory or disk; memory is checked before the work starts), CANCELLED.
absl::StatusOr<CalibratedBuild> Build(BuildCall call, Progress& progress);

}  // namespace hmann
