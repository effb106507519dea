#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "index/tune/check_tuned.h"
#include "index/tune/tune.h"
#include "index/tune/tuner.h"

namespace hmann {

/// What Tune found, with all that it tried.
struct TuningRun {
  struct ForK {
    std::uint32_t k = 0;
    Tuned tuned;
    std::optional<TuningCheck> check;
    double seconds = 0;  ///< of tuning, without the check
  };
  TuneReport report;
  std::vector<ForK> of_k;
  std::uint64_t test_queries = 0;
};

struct TuningCheckRequest {
  bool wanted = false;
  /// To test with; empty: the half of TuneOptions::queries, or more, that is not learned
  /// from.
  std::string queries, groundtruth;
  std::uint64_t most_queries = 600;  ///< of each setting of the grid
};

/// Tune; with `check`, also CheckTuned on queries that were not learned from.
absl::StatusOr<TuningRun> TuneIndex(const TuneOptions& options, const TuningCheckRequest& check,
                                    Progress& progress);

/// What the device profile says about work on vectors of `info` at this placement. Zero
/// figures (not measured) are left out.
CostPriors PriorsFrom(const DeviceProfile& profile, const OpenOptions& open);

}  // namespace hmann
