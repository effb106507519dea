#pragma once

#include <cstddef>
#include <cstdint>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace hmann {

/// XXH3-64 of [data, data + bytes).
inline std::uint64_t Checksum(const void* data, std::size_t bytes) {
  return XXH3_64bits(data, bytes);
}

}  // namespace hmann
