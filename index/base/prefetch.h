#pragma once

#include <atomic>
#include <cstddef>

namespace hmann {

constexpr std::size_t kCacheLineBytes = 64;

/// Prefetches every cache line of [address, address + bytes) for reading.
///
/// The fence is not decoration: g++ 12.2 takes a function whose body is nothing but prefetches for pure and deletes every
/// call of it that it does not inline. A house-rules test looks for the instructions in the object code.
__attribute__((always_inline)) inline void PrefetchLines(const void* address, std::size_t bytes) {
  const char* line = static_cast<const char*>(address);
  const char* end = line + bytes;
  for (; line < end; line += kCacheLineBytes) __builtin_prefetch(line, 0, 3);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace hmann
