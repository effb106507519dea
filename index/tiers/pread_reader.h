#pragma once

#include <sys/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "hmann/block_reader.h"
#include "index/tiers/direct_file.h"

namespace hmann {

/// pread(2), or what a test puts in its place.
using PreadFunction = ssize_t (*)(int fd, void* buffer, std::size_t bytes, off_t offset);

/// Threads of such a reader at most: so many reads are really under way at once.
constexpr std::uint32_t kPreadThreads = 4;

/// A reader for where io_uring is forbidden: a few threads that call pread(2). A thread
/// that hangs in it when the reader goes away is let go, and owns its share of frames and
/// file from then on. Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<std::unique_ptr<BlockReader>> NewPreadReader(const DirectExtent& extent,
                                                            const ReaderOptions& options,
                                                            PreadFunction pread);

}  // namespace hmann
