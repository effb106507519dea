#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann::server {

/// Notices that a file changes in place while it is served (`cp new.hmann live.hmann`),
/// which may end the process (SIGBUS) or pass foreign bytes for links. A file that is
/// renamed over another (`mv`) changes nothing: the old one is served on.
///
/// Where the system grants a lease (fcntl F_SETLEASE: a local file of our own, or with
/// CAP_LEASE), a writer waits in open() until Release, 45 s at most
/// (/proc/sys/fs/lease-break-time): no byte changes while a search runs. Elsewhere size
/// and time of the last change are compared, and a page of the mapping that is gone reads
/// as zeros instead of ending the process.
///
/// Thread safety: Changed from any thread; the rest from one.
class FileGuard {
 public:
  /// Errors: of open(2), with the path.
  static absl::StatusOr<std::unique_ptr<FileGuard>> Take(const std::string& path);
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;

  bool has_lease() const { return lease_; }
  /// After the file was opened and mapped: its mappings are watched. Errors:
  /// FAILED_PRECONDITION when `path` is another file by now, or has changed.
  absl::Status WatchMappings();
  /// Whether somebody writes to the file, or wants to.
  bool Changed() const;
  /// Lets a writer that waits go on. What was mapped must not be read any more.
  void Release();

 private:
  FileGuard(std::string path, int file) : path_(std::move(path)), file_(file) {}

  const std::string path_;
  const int file_;
  bool lease_ = false;
  struct stat before_ {};
  std::atomic<bool> torn_{false};  ///< set by the handler of SIGBUS
};

}  // namespace hmann::server
