/// Plans and builds an index, as `hmann plan` and `hmann build` do.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "hmann/calibration.h"
#include "hmann/hmann.h"
#include "hmann/progress.h"

namespace hmann {

/// The machine that an index is planned for.
struct PlanOptions {
  std::uint64_t fast_memory_bytes = 0;
  /// The tier that will hold L0, as MakeTier takes it. Its size does not matter.
  std::string slow = "nvme";
  /// Threads that search concurrently. Their scratch memory is subtracted from the fast
  /// memory. 0: UsableCores().
  int threads = 0;
};

/// Where the structures of a planned index go, for OpenOptions.
struct PlannedStructure {
  std::string structure;  ///< "16 % promoted, 2 bits, replicas 1"
  std::string fast, slow;
  std::uint64_t cache_bytes = 0;  ///< size of a static cache; 0: none
};

struct PlannedBuild {
  BuildOptions build;  ///< with the promote, bits and replicas of the plan
  PlannedStructure placement;
};

/// Chooses which index to build from the inputs of `build` for the given fast memory.
/// `hmann build --fast-memory` and `promote --fast-memory` run Plan, then Build. Values
/// of promote, bits and replicas set in `build` are kept. Reads headers and attributes,
/// and measures nothing: the same options and number of threads give the same plan.
/// Errors: those of opening the inputs and of PlanMemory; RESOURCE_EXHAUSTED naming the
/// smallest fast memory that would suffice.
absl::StatusOr<PlannedBuild> Plan(const BuildOptions& build, const PlanOptions& options);

/// How the default parameters of an index are calibrated.
struct CalibrateOptions {
  bool wanted = true;
  /// Vector file of queries similar to the expected ones. Empty: vectors of the index,
  /// each searched as if it were absent.
  std::string queries{};
  /// Maximum number of queries for each k; 0: as many as needed.
  std::uint64_t learn = 0;
  int threads = 0;  ///< 0: UsableCores(); Build uses the threads of the build
  /// Not owned; Build uses the one of the build.
  const std::atomic<bool>* cancelled = nullptr;
};

/// The arguments of `hmann build` and of `hmann promote` (from_index).
struct BuildCall {
  BuildOptions build;
  PlanOptions plan;  ///< if fast memory is given, it decides what `build` leaves open
  CalibrateOptions calibrate;
  /// With `from`: attributes of the vectors, written next to the index. Memory and
  /// cancellation are those of the build.
  MakeAttributesOptions attributes;
};

struct CalibratedBuild {
  BuildReport report;
  absl::StatusOr<Calibration> calibration;  ///< the index is complete even if this failed
};

/// If fast memory is given, writes the structure that the rule chooses to call->build and
/// describes it in a human-readable line. Errors: those of Plan; INVALID_ARGUMENT if
/// promote is given as well.
absl::StatusOr<std::string> ChooseStructure(BuildCall* call);

/// Builds an index by Algorithm 1, as `hmann build` does, and writes it to build.out.
/// With from_index, the default output is that index itself. The file appears completely
/// or not at all.
///
/// If fast memory is given, Build first chooses the structure. After the build it
/// measures how far the default parameters must be scaled on this index to reach a
/// recall. It stores the result next to the index, as Tune stores its parameters.
/// Attributes are checked before the build and written last: without them, because of an
/// error or a sudden end, the index is complete, and MakeAttributes makes up for it.
///
/// Deterministic: the same input, options (except threads) and version give the same
/// bytes. Setting build.cancelled stops the build. Errors: those of ChooseStructure;
/// INVALID_ARGUMENT (options, malformed or non-finite data, zero vector under cosine),
/// NOT_FOUND, RESOURCE_EXHAUSTED (memory or disk; memory is checked before the work
/// starts), CANCELLED.
absl::StatusOr<CalibratedBuild> Build(BuildCall call, Progress& progress);

/// Writes the index of format 3 at `from` to `out` in the current format, as `hmann
/// upgrade` does, and calibrates it. `calibrate.threads` and `calibrate.cancelled` count
/// for all of it. The file appears completely or not at all; it has the bytes that Build
/// would give. Errors: INVALID_ARGUMENT (not an index of format 3), DATA_LOSS (damaged),
/// NOT_FOUND, RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<CalibratedBuild> Upgrade(const std::string& from, const std::string& out,
                                        const CalibrateOptions& calibrate, Progress& progress);

}  // namespace hmann
