#pragma once

#include <string>

#include "absl/status/status.h"
#include "datasets/toolbox/generate.h"
#include "hmann/progress.h"

namespace hmann {

/// Writes tags of clustered vectors first .. first + n - 1 to an .spmat file
/// (index/attributes/rows.h): 1 to 30 of 20,000 for each, whose frequencies follow Zipf's
/// law. Half of them come from the vector's cluster, in which one in 16 tags of about the
/// same frequency occurs.
///
/// `queries`: instead, one or two tags of a vector before `first`, of the same cluster if
/// one is found. Errors: INVALID_ARGUMENT (another shape or suffix; queries without
/// vectors before); those of AtomicFile.
absl::Status GenerateTags(const GenerateOptions& options, bool queries, const std::string& path,
                          Progress& progress);

}  // namespace hmann
