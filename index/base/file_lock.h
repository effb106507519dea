/// Locks that processes have, such as the only writer of a folder.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "index/base/file.h"

namespace hmann {

/// A lock of this process (flock), until destruction or the process's end. Children that
/// are forked meanwhile do not share it, whatever they live on for. Move-only.
class FileLock {
 public:
  FileLock() = default;
  FileLock(FileLock&& other) noexcept { *this = std::move(other); }
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~FileLock();

  /// Makes the file if there is none. Errors: as open(2); UNAVAILABLE if another process
  /// has the lock, or this one.
  static absl::StatusOr<FileLock> Take(const std::string& path);
  /// The file, open to read and write; -1: none.
  int fd() const { return file_.fd(); }

 private:
  FileDescriptor file_;
};

}  // namespace hmann
