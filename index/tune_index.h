#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "index/hmann.h"
#include "index/learning_set.h"
#include "index/tune/check_tuned.h"
#include "index/tune/tuner.h"

namespace hmann {

struct DeviceProfile;

/// What hmann::Tune found, with all that it tried.
struct TuningRun {
  struct OfK {
    std::uint32_t k = 0;
    Tuned tuned;
    std::optional<TuningCheck> check;
    double seconds = 0;  ///< of tuning, without the check
  };
  TuneReport report;
  std::vector<OfK> of_k;
  std::uint64_t test_queries = 0;
};

struct TuningCheckWish {
  bool wanted = false;
  /// To test with; empty: the half of TuneOptions::queries, or more, that is not learned from.
  std::string queries, groundtruth;
  std::uint64_t most_queries = 600;  ///< of each setting of the grid
};

/// hmann::Tune; with `check`, also CheckTuned on queries that were not learned from.
absl::StatusOr<TuningRun> TuneIndex(const TuneOptions& options, const TuningCheckWish& check, Progress& progress);

/// Where `index` lies, as its tuned table names it.
TunedPlacement PlacementOf(const OpenOptions& options);

/// What the device profile says about work on vectors of `info` at this placement. Zero figures (not measured) are left out.
CostPriors PriorsFrom(const DeviceProfile& profile, const IndexInfo& info, const OpenOptions& open);

}  // namespace hmann
