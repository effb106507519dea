#pragma once

#include <cstddef>

namespace hmann {

/// memcpy that leaves the caches as they are (non-temporal stores, where the CPU has
/// them), for what will not be read soon. What it has written is visible to other threads
/// when it returns, and on x86 has left the caches: in persistent memory it stays.
void StreamCopy(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace hmann
