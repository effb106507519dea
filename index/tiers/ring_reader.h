#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/block_reader.h"
#include "index/tiers/direct_file.h"

namespace hmann {

/// OK if this process may use io_uring and can wait on it with a deadline (Linux 5.11).
/// Otherwise UNAVAILABLE with the reason, or RESOURCE_EXHAUSTED.
absl::Status RingUsable();

/// A reader with its own io_uring. The file is registered and, if RLIMIT_MEMLOCK allows
/// it, so are the frames. Errors: RESOURCE_EXHAUSTED; INTERNAL, those of the kernel.
absl::StatusOr<std::unique_ptr<BlockReader>> NewRingReader(const DirectExtent& extent,
                                                           const ReaderOptions& options);

}  // namespace hmann
