#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/file.h"

namespace hmann::server {

/// Detects that a file changes in place while it is served (`cp new.hmann live.hmann`).
/// Such a change may end the process (SIGBUS) or make it read foreign bytes as links.
/// Renaming another file over it (`mv`) is harmless: the old file is still served.
///
/// Where the system grants a lease (fcntl F_SETLEASE: a local file of our own, or with
/// CAP_LEASE), a writer waits in open() until Release. It waits 45 s at most
/// (/proc/sys/fs/lease-break-time). No byte then changes while a search runs. Elsewhere
/// the guard compares size and modification time. A page that is gone from the mapping
/// then reads as zeros instead of ending the process.
///
/// Thread safety: Changed may be called from any thread; the rest from one thread.
class FileGuard {
 public:
  /// Errors: those of open(2), with the path; INVALID_ARGUMENT if it is not a regular
  /// file.
  static absl::StatusOr<std::unique_ptr<FileGuard>> Take(const std::string& path);
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;

  bool has_lease() const { return lease_; }
  /// Watches a mapping of the file, until the guard is destroyed.
  void Watch(std::span<const std::byte> mapped);
  /// Call it after the file was opened and mapped. Errors: FAILED_PRECONDITION when
  /// `path` is another file by now, or the file has changed.
  absl::Status CheckOpened();
  /// True when another process writes to the file, or wants to.
  bool Changed() const;
  /// Lets a waiting writer proceed. The mapped data must not be read after this.
  void Release();

 private:
  FileGuard(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  const std::string path_;
  const FileDescriptor file_;
  bool lease_ = false;
  struct stat before_ {};
  std::atomic<bool> torn_{false};  ///< set by the handler of SIGBUS
};

}  // namespace hmann::server
