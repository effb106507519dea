#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/block_reader.h"
#include "hmann/tier.h"
#include "index/base/file.h"

namespace hmann {

constexpr std::uint32_t kDirectBlock = 4096;

/// A file opened with O_DIRECT. It is shared by everything that may still read from it.
class DirectFile {
 public:
  /// `tier` names the caller in messages. Errors: those of open(2); FAILED_PRECONDITION
  /// if the file system refuses O_DIRECT.
  static absl::StatusOr<std::shared_ptr<const DirectFile>> Open(const std::string& tier,
                                                                const std::string& path);
  DirectFile(int fd, std::string path) : file_(fd), path_(std::move(path)) {}

  int fd() const { return file_.fd(); }
  const std::string& path() const { return path_; }
  absl::StatusOr<std::uint64_t> Size() const;
  /// Found by Open, since storage may hang later.
  const std::string& device() const { return device_; }
  bool may_write() const { return may_write_; }
  /// What direct reads are multiples of, as the file system says; if it does not say
  /// (before Linux 6.1), kDirectBlock.
  std::uint32_t sector_bytes() const { return sector_bytes_; }

 private:
  FileDescriptor file_;
  std::string path_, device_;
  bool may_write_ = false;
  std::uint32_t sector_bytes_ = kDirectBlock;
};

/// The part of a file that is a block tier's region.
struct DirectExtent {
  std::shared_ptr<const DirectFile> file;
  std::uint64_t begin = 0;  ///< in the file; a multiple of 4096
  std::uint64_t bytes = 0;

  /// INVALID_ARGUMENT unless the read is aligned, lies inside the region (and its last
  /// block), and fits the reader's frames.
  absl::Status Check(const BlockRead& read, const ReaderOptions& options) const;
  /// The same check for reads to be submitted. Marks their frames in `busy`; on an error,
  /// none. INVALID_ARGUMENT also for a frame that is marked already.
  absl::Status Reserve(std::span<const BlockRead> reads, const ReaderOptions& options,
                       std::vector<bool>* busy) const;
  /// Judges the result of read(2) or a ring (bytes, or minus errno) for a read of
  /// `wanted` bytes at `offset` of the region: OK, or DATA_LOSS naming file, offset,
  /// expected, found.
  absl::Status Judge(std::uint64_t offset, std::uint64_t wanted, std::int64_t result) const;

  /// Reads the first and the last block and compares them with the expected source.
  /// Errors: FAILED_PRECONDITION if the file system refuses such reads; DATA_LOSS for
  /// different content.
  absl::Status Probe(const std::string& tier, std::span<const std::byte> source) const;
  /// Sets MemoryResidency::device and ::cached.
  void Where(MemoryResidency* where) const;
};

}  // namespace hmann
