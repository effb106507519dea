#pragma once

#include "absl/status/statusor.h"
#include "hmann/build.h"
#include "hmann/calibration.h"
#include "hmann/progress.h"

namespace hmann {

/// Makes the calibration of an index (k = 1, 10, ... 10,000, recalls 0.85 to 0.99) by
/// searching it, mapped, with all threads, and
/// stores it beside the index (hmann/tuned_table.h). What was tuned stays; a stale
/// or damaged table is replaced. Recalls do not hang on the tier, so one calibration
/// serves all; times are not looked at. Errors: those of MakeLearningSet, Index::Open and
/// WriteTunedTable; CANCELLED.
absl::StatusOr<Calibration> Calibrate(const std::string& index, const CalibrateOptions& options,
                                      Progress& progress);

}  // namespace hmann
