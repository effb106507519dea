#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/block_reader.h"
#include "index/tiers/direct_file.h"

namespace hmann {

/// OK if this process may use io_uring and it can wait with a deadline (Linux 5.11); else
/// UNAVAILABLE saying why not, or RESOURCE_EXHAUSTED.
absl::Status RingUsable();

/// A reader that is an io_uring of its own: the file and, where RLIMIT_MEMLOCK allows it,
/// the frames are registered. Errors: RESOURCE_EXHAUSTED; INTERNAL, those of the kernel.
absl::StatusOr<std::unique_ptr<BlockReader>> NewRingReader(const DirectExtent& extent,
                                                           const ReaderOptions& options);

}  // namespace hmann
