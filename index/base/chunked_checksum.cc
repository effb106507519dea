#include "index/base/chunked_checksum.h"

#include <array>
#include <vector>

#include "index/base/errors.h"

namespace hmann {

void ChunkedChecksum::AppendZeros(std::uint64_t bytes) {
  static const std::uint64_t zero_chunk_digest = [] {
    const std::vector<std::byte> zeros(kChecksumChunk);
    return Checksum(zeros.data(), zeros.size());
  }();
  static constexpr std::array<std::byte, 4096> kZeros{};
  while (bytes > 0) {
    if (filled_ == 0 && bytes >= kChecksumChunk) {
      CloseChunk(zero_chunk_digest);
      bytes -= kChecksumChunk;
      continue;
    }
    const std::size_t part = std::min<std::uint64_t>(bytes, kZeros.size());
    Append(kZeros.data(), part);
    bytes -= part;
  }
}

std::uint64_t ChunkedChecksum::Digest() {
  if (filled_ > 0) CloseChunk(XXH3_64bits_digest(&chunk_));
  return XXH3_64bits_digest(&chunks_);
}

absl::Status CompareChecksum(const CheckedBytes& what, std::uint64_t expected,
                             std::uint64_t found) {
  if (found == expected) return absl::OkStatus();
  return DataLoss(what.path, ": damaged at offset ", what.offset, " (section ", what.section, ", ",
                  what.bytes, " bytes): copy the file anew or build it again");
}

}  // namespace hmann
