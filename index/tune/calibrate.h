#pragma once

#include "absl/status/statusor.h"
#include "hmann/build.h"
#include "hmann/calibration.h"
#include "hmann/progress.h"

namespace hmann {

/// Calibrates an index (k = 1, 10, ... 10,000, recalls 0.85 to 0.99) by searching it,
/// mapped, with all threads. Stores the calibration next to the index
/// (hmann/tuned_table.h). Tuned settings stay; a stale or damaged table is replaced.
/// Recall does not depend on the tier, so one calibration serves all tiers; times are not
/// measured. Errors: those of MakeLearningSet, Index::Open and WriteTunedTable;
/// CANCELLED.
absl::StatusOr<Calibration> Calibrate(const std::string& index, const CalibrateOptions& options,
                                      Progress& progress);

/// Gives an index the calibration of another one, of nearly the same vectors. Errors:
/// those of reading either; NOT_FOUND if that has none.
absl::Status TakeCalibration(const std::string& from, const std::string& index);

}  // namespace hmann
