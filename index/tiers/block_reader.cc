#include "hmann/block_reader.h"

#include <cstdint>

#include "index/base/errors.h"
#include "index/base/units.h"

namespace hmann {

absl::Status ReaderOptions::Validate() const {
  constexpr std::uint32_t kMostDepth = 4096;
  constexpr std::uint64_t kMostBytes = 64_GiB;
  if (depth == 0 || depth > kMostDepth)
    return InvalidArgument("depth: expected 1 to ", kMostDepth, ", found ", depth);
  if (frame_bytes == 0 || frame_bytes % 512 != 0) {
    return InvalidArgument("frame_bytes: expected a multiple of 512, found ", frame_bytes);
  }
  if (frames == 0 || frames > kMostBytes / frame_bytes)
    return InvalidArgument("frames: expected 1 to ", kMostBytes / frame_bytes, ", found ", frames);
  return absl::OkStatus();
}

}  // namespace hmann
