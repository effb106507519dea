#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace hmann::eval {

/// Asks the kernel to drop a file's pages, so that the next reader pays for them in its
/// own cgroup. Returns the share of the file that remains cached (because some process
/// maps it). Errors: as open(2), fdatasync(2), mmap(2).
absl::StatusOr<double> DropFromPageCache(const std::string& path);

/// The share of a file that is in the page cache. Errors: as open(2), mmap(2).
absl::StatusOr<double> ShareInPageCache(const std::string& path);

}  // namespace hmann::eval
