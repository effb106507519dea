#pragma once

#include "absl/status/statusor.h"
#include "index/base/progress.h"
#include "index/dials/calibration.h"
#include "index/tune/tune.h"

namespace hmann {

/// Efforts that are tried, from 1 outwards, and how far apart.
constexpr double kEffortStep = 1.4142135623730951;
constexpr double kLeastEffort = 1.0 / 16, kMostEffort = 64;
/// Recalls between which a curve is followed.
constexpr double kLeastCalibrated = 0.85, kMostCalibrated = 0.99;

/// Makes the calibration of an index by searching it, mapped, with all threads, and
/// stores it beside the index (index/format/tuned_table.h). What was tuned stays; a stale
/// or damaged table is replaced. Recalls do not hang on the tier, so one calibration
/// serves all; times are not looked at. Errors: those of MakeLearningSet, Index::Open and
/// WriteTunedTable; CANCELLED.
absl::StatusOr<Calibration> Calibrate(const std::string& index, const CalibrateOptions& options,
                                      Progress& progress);

}  // namespace hmann
