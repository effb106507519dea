#pragma once

#include <cstddef>

namespace hmann {

/// A memcpy that leaves the caches unchanged (non-temporal stores, where the CPU has
/// them), for data that will not be read soon. When it returns, the data is visible to
/// other threads and, on x86, has left the caches: in persistent memory it is persistent.
void StreamCopy(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace hmann
