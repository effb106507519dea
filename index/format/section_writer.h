#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "index/base/chunked_checksum.h"
#include "index/base/file.h"

namespace hmann {

/// Appends one section to a file and computes its checksum on the fly. Long runs of zeros
/// are left as holes.
class SectionWriter {
 public:
  /// `file` is not owned. Nothing else may append to it until Finish.
  explicit SectionWriter(AtomicFile& file) : file_(file), begin_(file.size()) {}

  absl::Status Append(const void* data, std::size_t bytes);
  absl::Status AppendZeros(std::uint64_t bytes) {
    pending_zeros_ += bytes;
    return absl::OkStatus();
  }
  std::uint64_t bytes() const { return file_.size() + pending_zeros_ - begin_; }

  /// Writes pending bytes and pads the file to `granule`. Nothing may be appended
  /// afterwards.
  absl::Status Finish(std::uint64_t granule);
  std::uint64_t checksum() { return checksum_.Digest(); }

 private:
  absl::Status WriteZeros(std::uint64_t bytes);

  AtomicFile& file_;
  std::uint64_t begin_;
  std::uint64_t pending_zeros_ = 0;
  ChunkedChecksum checksum_;
};

}  // namespace hmann
