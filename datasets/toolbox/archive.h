#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/progress.h"

namespace hmann {

/// Unpacks the regular files of an archive (.tar.gz and other formats of libarchive) into
/// `folder`; each appears whole or not at all. Returns their paths relative to `folder`,
/// in the archive's order.
///
/// Errors: INVALID_ARGUMENT for a path that is absolute or leads out of `folder`, for a
/// link or device, or if more than `most_bytes` come out; DATA_LOSS for a damaged
/// archive; as open(2) and AtomicFile. Files unpacked before the error stay.
absl::StatusOr<std::vector<std::string>> UnpackArchive(const std::string& path,
                                                       const std::string& folder,
                                                       std::uint64_t most_bytes,
                                                       Progress& progress);

}  // namespace hmann
