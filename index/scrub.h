#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "hmann/tier.h"
#include "index/base/chunked_checksum.h"

namespace hmann {

/// Compares the bytes of a region with their checksum, in memory or on a device. `pace`
/// is called before each MiB with its bytes, and may wait; if it returns false, the work
/// ends. Errors: DATA_LOSS; CANCELLED; UNAVAILABLE when the device does not give the
/// bytes; RESOURCE_EXHAUSTED.
absl::Status ScrubRegion(const Region& region, const CheckedBytes& what, std::uint64_t checksum,
                         const std::function<bool(std::uint64_t)>& pace);

}  // namespace hmann
