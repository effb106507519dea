#pragma once

#include <sys/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "hmann/block_reader.h"
#include "index/tiers/direct_file.h"

namespace hmann {

/// pread(2), or a test's replacement.
using PreadFunction = ssize_t (*)(int fd, void* buffer, std::size_t bytes, off_t offset);

/// Maximum threads of such a reader, and so its maximum reads in flight.
constexpr std::uint32_t kPreadThreads = 4;

/// A reader for systems that forbid io_uring: a few threads that call pread(2). If a
/// thread hangs in it when the reader is destroyed, it is detached and then owns its
/// share of frames and file. Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<std::unique_ptr<BlockReader>> NewPreadReader(const DirectExtent& extent,
                                                            const ReaderOptions& options,
                                                            PreadFunction pread);

}  // namespace hmann
