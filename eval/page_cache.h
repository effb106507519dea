#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace hmann::eval {

/// Asks the kernel to forget a file's pages, so that who reads it next pays for them in
/// his own cgroup. Returns the share of the file that is still there afterwards (mapped
/// by somebody). Errors: as open(2), fdatasync(2), mmap(2).
absl::StatusOr<double> DropFromPageCache(const std::string& path);

/// The share of a file that is in the page cache. Errors: as open(2), mmap(2).
absl::StatusOr<double> ShareInPageCache(const std::string& path);

}  // namespace hmann::eval
