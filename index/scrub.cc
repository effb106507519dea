#include "index/scrub.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "hmann/block_reader.h"
#include "index/base/buffer.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Clock = std::chrono::steady_clock;

/// The same time that a search waits for a device.
constexpr std::chrono::seconds kPatience(30);
constexpr std::uint64_t kBlock = 4096;

/// Reads a region piece by piece.
class Pieces {
 public:
  static absl::StatusOr<Pieces> Of(const Region& region) {
    Pieces pieces(region);
    if (region.data() == nullptr) {
      HMANN_ASSIGN_OR_RETURN(
          pieces.reader_,
          region.NewReader({.depth = 1, .frames = 1, .frame_bytes = kChecksumChunk}));
    }
    return pieces;
  }

  /// Valid until the next call.
  absl::StatusOr<const std::byte*> Read(std::uint64_t offset, std::uint64_t bytes) {
    if (reader_ != nullptr) return FromDevice(offset, bytes);
    const std::byte* piece = region_.data() + offset;
    // Mappings are advised as random access, so the kernel does not read ahead by itself.
    ::madvise(const_cast<std::byte*>(piece), bytes, MADV_WILLNEED);
    return piece;
  }

 private:
  explicit Pieces(const Region& region) : region_(region) {}

  absl::StatusOr<const std::byte*> FromDevice(std::uint64_t offset, std::uint64_t bytes) {
    const BlockRead read{offset, static_cast<std::uint32_t>(RoundUp(bytes, kBlock)), 0, 0};
    HMANN_RETURN_IF_ERROR(reader_->Submit({&read, 1}).status());
    std::vector<BlockDone> done;
    const Clock::time_point deadline = Clock::now() + kPatience;
    while (done.empty() && Clock::now() < deadline)
      HMANN_RETURN_IF_ERROR(reader_->Wait(deadline, &done));
    if (done.empty()) return Unavailable("the device has not answered for 30 s");
    if (!done[0].status.ok()) return Unavailable(done[0].status.message());
    return reader_->Frame(0);
  }

  const Region& region_;
  std::unique_ptr<BlockReader> reader_;
};

}  // namespace

absl::Status ScrubRegion(const Region& region, const CheckedBytes& what, std::uint64_t checksum,
                         const std::function<bool(std::uint64_t)>& pace) {
  HMANN_ASSIGN_OR_RETURN(Pieces pieces, Pieces::Of(region));
  std::vector<std::uint64_t> digests(ChecksumChunks(region.size()));
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const std::uint64_t offset = i * kChecksumChunk,
                        bytes = std::min(kChecksumChunk, region.size() - offset);
    if (!pace(bytes)) return absl::CancelledError("the check was ended");
    HMANN_ASSIGN_OR_RETURN(const std::byte* const piece, pieces.Read(offset, bytes));
    digests[i] = Checksum(piece, bytes);
  }
  return CompareChecksum(what, checksum, ChunkedChecksum::Combine(digests));
}

}  // namespace hmann
