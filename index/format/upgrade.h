#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/info.h"
#include "hmann/progress.h"

namespace hmann {

/// Writes the index of format 3 at `from` to `out` in the current format: the same
/// vectors, links, labels and codes. Runs VerifyLists on `from` first. Memory: n ids to
/// order the labels; the file is read in order and stays on the drive. Errors: as
/// IndexFile::Open and WriteIndex; INVALID_ARGUMENT if `from` has the current format;
/// DATA_LOSS if it is damaged.
absl::StatusOr<IndexInfo> UpgradeIndex(const std::string& from, const std::string& out,
                                       Progress& progress,
                                       const std::atomic<bool>* cancelled = nullptr);

}  // namespace hmann
