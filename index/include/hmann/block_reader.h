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
  std::uint64_t offset = 0;  ///< bytes from the region's start; a multiple of 4096
  std::uint32_t bytes = 0;   ///< a multiple of 4096, at most the reader's frame_bytes; may pass the
                             ///< region's end within its last block
  std::uint32_t frame =
      0;  ///< that it fills; must not be touched or named again until the read is done
  std::uint64_t tag = 0;  ///< the caller's
};

/// A read that is over, well or not.
struct BlockDone {
  std::uint64_t tag = 0;
  std::uint32_t frame = 0;
  absl::Status status;  ///< not OK: the frame holds nothing. DATA_LOSS (short read, device error)
                        ///< naming file and offset
};

struct ReaderOptions {
  std::uint32_t depth = 32;          ///< reads in flight at most
  std::uint32_t frames = 256;        ///< buffers
  std::uint32_t frame_bytes = 4096;  ///< of each; a multiple of 4096

  /// Errors: INVALID_ARGUMENT naming the field; a depth above 4096, or more than 64 GiB
  /// of frames, is one.
  absl::Status Validate() const;
};

/// Reads blocks for one thread: no read blocks, several are in flight. Not thread-safe;
/// readers of one region are independent.
///
/// A read in flight cannot be abandoned: who gives up on it must leave its frame alone
/// until its BlockDone has come. The destructor is bounded: it waits a short while (about
/// a second) for what is in flight and then leaves those frames to the kernel.
class BlockReader {
 public:
  virtual ~BlockReader() = default;

  const ReaderOptions& options() const { return options_; }
  /// frame_bytes bytes, aligned to 4096; fast memory.
  virtual std::byte* Frame(std::uint32_t frame) const = 0;

  virtual std::uint32_t InFlight() const = 0;
  /// Starts reads from the front of `reads` until `depth` are in flight; returns how many
  /// it took. Errors: INVALID_ARGUMENT (outside the region, unaligned, a frame that is in
  /// flight: then nothing is started), INTERNAL (the ring).
  virtual absl::StatusOr<std::size_t> Submit(std::span<const BlockRead> reads) = 0;
  /// Appends what is done. If nothing is, waits until something is or `deadline` has
  /// passed (then appends nothing); returns at once when nothing is in flight. A deadline
  /// in the past polls.
  virtual absl::Status Wait(std::chrono::steady_clock::time_point deadline,
                            std::vector<BlockDone>* done) = 0;

 protected:
  explicit BlockReader(const ReaderOptions& options) : options_(options) {}

 private:
  ReaderOptions options_;
};

}  // namespace hmann
