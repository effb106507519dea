#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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
/// An open that was refused (O_NONBLOCK) or given up is no change. New times alone call
/// for a look at the content: Touched. A write through a mapping needs an open, or has
/// one from before, and then there is no lease: it is seen by its time, which is new with
/// the first write to a page. A file system without such times (tmpfs) leaves it to
/// Index::Scrub.
///
/// Thread safety: Changed, Touched and Trust may be called from any thread; the rest from
/// one thread.
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
  /// True when another process writes to the file, or waits to, or its size is new.
  bool Changed();
  /// True when its modification time is neither that of Take nor of the last Trust.
  bool Touched() const { return TimeNow() != trusted_; }
  /// The modification time, in nanoseconds since 1970.
  std::int64_t TimeNow() const;
  /// Its content was found unchanged after this time.
  void Trust(std::int64_t time) { trusted_ = time; }
  /// Lets a waiting writer proceed. The mapped data must not be read after this.
  void Release();

 private:
  FileGuard(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  const std::string path_;
  const FileDescriptor file_;
  std::atomic<bool> lease_{false};
  struct stat before_ {};
  std::atomic<std::int64_t> trusted_{0};
  std::mutex mutex_;               ///< held while the lease is taken again
  std::atomic<bool> torn_{false};  ///< set by the handler of SIGBUS
};

}  // namespace hmann::server
