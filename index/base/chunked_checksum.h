#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "index/base/checksum.h"
#include "index/base/units.h"

namespace hmann {

constexpr std::uint64_t kChecksumChunk = 1_MiB;

/// Checksum of a section: XXH3-64 over the XXH3-64s (u64, in order) of its 1 MiB chunks.
/// The last chunk may be shorter. The checksum can be computed while streaming and
/// checked on all cores. A hole costs nothing, because every chunk of zeros has the same
/// digest.
class ChunkedChecksum {
 public:
  ChunkedChecksum() {
    XXH3_64bits_reset(&chunk_);
    XXH3_64bits_reset(&chunks_);
  }

  void Append(const void* data, std::size_t bytes) {
    const auto* next = static_cast<const std::byte*>(data);
    while (bytes > 0) {
      const std::size_t part = std::min<std::size_t>(bytes, kChecksumChunk - filled_);
      XXH3_64bits_update(&chunk_, next, part);
      next += part;
      bytes -= part;
      filled_ += part;
      if (filled_ == kChecksumChunk) CloseChunk(XXH3_64bits_digest(&chunk_));
    }
  }
  /// Same as Append of `bytes` zeros.
  void AppendZeros(std::uint64_t bytes);
  std::uint64_t Digest();

  /// The checksum of a section whose chunks have these digests.
  static std::uint64_t Combine(std::span<const std::uint64_t> digests) {
    return Checksum(digests.data(), digests.size_bytes());
  }

 private:
  void CloseChunk(std::uint64_t digest) {
    XXH3_64bits_update(&chunks_, &digest, sizeof(digest));
    XXH3_64bits_reset(&chunk_);
    filled_ = 0;
  }

  XXH3_state_t chunk_, chunks_;
  std::uint64_t filled_ = 0;  ///< bytes of the open chunk
};

/// The number of digests that a section of `bytes` bytes has.
constexpr std::size_t ChecksumChunks(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + kChecksumChunk - 1) / kChecksumChunk);
}

/// The bytes that are compared with a checksum, named for the error message.
struct CheckedBytes {
  std::string path;          ///< of the index file
  std::uint64_t offset = 0;  ///< in it
  std::string section;       ///< "l0"
  std::uint64_t bytes = 0;
};

/// OK, or DATA_LOSS with a message that names these bytes and what to do.
absl::Status CompareChecksum(const CheckedBytes& what, std::uint64_t expected, std::uint64_t found);

}  // namespace hmann
