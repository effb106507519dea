#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace hmann {

/// One read from a region of a block tier.
struct BlockRead {
  std::uint64_t offset = 0;  ///< from the region's start; of whole sector_bytes
  /// Whole sector_bytes, at most the reader's frame_bytes; the last of them may extend
  /// past the end of the region.
  std::uint32_t bytes = 0;
  /// The frame that the read fills. Do not touch or reuse it until the read is done.
  std::uint32_t frame = 0;
  std::uint64_t tag = 0;  ///< for the caller's use
};

/// A completed read, successful or not.
struct BlockDone {
  std::uint64_t tag = 0;
  std::uint32_t frame = 0;
  /// Not OK: the frame holds nothing. DATA_LOSS (short read, device error) names file and
  /// offset.
  absl::Status status;
};

struct ReaderOptions {
  std::uint32_t depth = 32;          ///< maximum number of reads in flight
  std::uint32_t frames = 256;        ///< number of buffers
  std::uint32_t frame_bytes = 4096;  ///< size of each frame; a multiple of sector_bytes

  /// Errors: INVALID_ARGUMENT naming the field. A depth above 4096 or more than 64 GiB of
  /// frames is an error.
  absl::Status Validate() const;
};

/// Reads blocks for one thread. Submitting a read does not block, and several reads can
/// be in flight. Not thread-safe; readers of one region are independent of each other.
///
/// A read in flight cannot be abandoned: a caller that gives up on it must leave its
/// frame alone until its BlockDone arrives. The destructor is bounded: it waits about a
/// second for the reads in flight, then leaves their frames to the kernel.
class BlockReader {
 public:
  virtual ~BlockReader() = default;

  const ReaderOptions& options() const { return options_; }
  /// frame_bytes bytes of fast memory, aligned to sector_bytes.
  virtual std::byte* Frame(std::uint32_t frame) const = 0;

  virtual std::uint32_t InFlight() const = 0;
  /// Starts reads from the front of `reads` until `depth` are in flight. Returns the
  /// number of reads started. Errors: INVALID_ARGUMENT (outside the region, unaligned, or
  /// a frame already in flight; no read is started then), INTERNAL (the ring).
  virtual absl::StatusOr<std::size_t> Submit(std::span<const BlockRead> reads) = 0;
  /// Appends the completed reads to `done`. If there are none, waits until a read
  /// completes or `deadline` passes (then appends nothing). Returns at once when nothing
  /// is in flight. A deadline in the past polls.
  virtual absl::Status Wait(std::chrono::steady_clock::time_point deadline,
                            std::vector<BlockDone>* done) = 0;

 protected:
  explicit BlockReader(const ReaderOptions& options) : options_(options) {}

 private:
  ReaderOptions options_;
};

}  // namespace hmann
