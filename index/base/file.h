#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann {

/// The one place that turns errno into a Status: "open /a/b: No such file or directory"
/// with the code that fits (NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED for a full
/// disk or quota, ALREADY_EXISTS, else INTERNAL).
absl::Status ErrnoError(int error, const char* operation, const std::string& path);

/// A file descriptor that is closed on destruction. Move-only.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept { *this = std::move(other); }
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  /// Adds O_CLOEXEC. Errors: as open(2).
  static absl::StatusOr<FileDescriptor> Open(const std::string& path, int flags, int mode = 0);

  int fd() const { return fd_; }  ///< -1: none

 private:
  int fd_ = -1;
};

/// A file mapped for reading. The mapping stays valid while the object lives. The caller
/// must not shrink the file meanwhile (SIGBUS). Move-only.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(inode_, other.inode_);
    return *this;
  }
  ~MappedFile();

  /// Errors: as open(2); INVALID_ARGUMENT if it is not a regular file. An empty file maps
  /// to an empty span.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  enum class Access { kRandom, kSequential, kNone };
  /// Tells the kernel how [offset, offset + bytes) will be read. kNone: not for now, so
  /// its pages stop counting as memory of this process.
  void Advise(Access access, std::uint64_t offset, std::uint64_t bytes) const;

  /// The mapped file, open for reading; none if its path leads to another one by now.
  FileDescriptor Reopen() const;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::pair<std::uint64_t, std::uint64_t> inode_;  // device and number
};

/// Share of the pages of a mapped file that are in the page cache; nullopt, with errno
/// set, if the kernel does not tell. `mapped` must start at a page and not be empty.
std::optional<double> ShareInMemory(std::span<const std::byte> mapped);

/// The file that a whole new one replaces when `path` is written: `path`, or where its
/// links lead, which may not exist yet. Every rename over a file asks it first.
/// Errors: INVALID_ARGUMENT for "-", a folder, a pipe, a device, a socket and a file that
/// has no name; INTERNAL for links in a circle.
absl::StatusOr<std::string> FileToWrite(const std::string& path);

/// Errors: INVALID_ARGUMENT if `out` is one of the files `inputs`, by this name or
/// another one, so that writing it would replace what is read. Inputs may be "".
absl::Status CheckNotInput(const std::string& out, std::initializer_list<std::string> inputs);

/// `<path>.<pid>.<16 digits>`. The digits are random, because processes of other machines
/// and containers may have the same number.
std::string UniqueName(const std::string& path);

/// Whether a file has the name of one that is being made: UniqueName(`<path>.tmp`).
bool IsTemporaryName(std::string_view name);

/// Removes a temporary file, unless the process that writes it is alive: on any machine
/// that shares its lock (flock). Where the file system has no locks, the file stays.
void RemoveIfDead(const std::string& temporary);

/// Writes a file that appears under its name whole or not at all. It writes to
/// UniqueName(`<FileToWrite(path)>.tmp`), which it locks, then does fsync, rename, and
/// fsync of the folder. If it is destroyed before Commit, it removes its temporary file
/// and leaves an old file as it was.
class AtomicFile {
 public:
  AtomicFile() = default;
  AtomicFile(AtomicFile&& other) noexcept { *this = std::move(other); }
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  /// Errors: as FileToWrite and open(2).
  static absl::StatusOr<AtomicFile> Create(const std::string& path);

  /// Appends; buffered. Errors: RESOURCE_EXHAUSTED when the disk is full.
  absl::Status Append(const void* data, std::size_t bytes);
  /// Overwrites earlier bytes, such as a header whose content is known only at the end.
  absl::Status WriteAt(std::uint64_t offset, const void* data, std::size_t bytes);
  /// Moves the end to `size` without writing: the gap reads as zeros and takes no space
  /// (a sparse file).
  absl::Status ExtendTo(std::uint64_t size);
  std::uint64_t size() const { return size_; }
  /// Writes what is buffered. Returns the path under which the file can be read already.
  absl::StatusOr<std::string> Written();

  absl::Status Commit();

 private:
  absl::Status Flush();

  std::string path_, temporary_;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
  std::string buffer_;  ///< bytes of [size_ - buffer_.size(), size_) not yet written
};

/// Makes a folder and its missing parents. Errors: as mkdir(2).
absl::Status MakeFolders(const std::string& path);

/// Waits until a file or a folder is on disk. Errors: as open(2) and fsync(2).
absl::Status SyncPath(const std::string& path);

/// A folder that appears under its name whole or not at all. Files are written to
/// temporary() first. Destroyed before Commit, it removes that folder. Move-only.
class NewFolder {
 public:
  /// Errors: ALREADY_EXISTS; as MakeFolders.
  static absl::StatusOr<NewFolder> Make(const std::string& path);
  NewFolder(NewFolder&& other) noexcept { *this = std::move(other); }
  NewFolder& operator=(NewFolder&& other) noexcept;
  ~NewFolder();

  const std::string& temporary() const { return temporary_; }
  absl::Status Commit();

 private:
  NewFolder() = default;
  std::string path_, temporary_;
};

/// Reads a small text file whole. Errors: as open(2); INVALID_ARGUMENT above `most`
/// bytes.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, std::uint64_t most);

/// Writes the file whole or not at all, as AtomicFile does.
absl::Status WriteTextFile(const std::string& path, std::string_view text);

}  // namespace hmann
