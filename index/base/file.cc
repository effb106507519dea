#include "index/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/check.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr std::size_t kWriteBuffer = 1_MiB;
constexpr char kTemporary[] = ".tmp";

absl::Status WriteFully(int fd, const std::string& path, std::uint64_t offset, const char* data,
                        std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::pwrite(fd, data, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoError(errno, "write", path);
    if (written == 0) return ErrnoError(ENOSPC, "write", path);
    data += written;
    offset += static_cast<std::uint64_t>(written);
    bytes -= static_cast<std::size_t>(written);
  }
  return absl::OkStatus();
}

/// What `type` is, if no file can replace it.
const char* FoundInstead(std::filesystem::file_type type) {
  using enum std::filesystem::file_type;
  return type == directory                    ? "is a folder"
         : type == fifo                       ? "is a pipe"
         : type == block || type == character ? "is a device"
         : type == socket                     ? "is a socket"
                                              : nullptr;
}

/// Waits until a new name is on disk.
absl::Status SyncFolderOf(const std::string& path) {
  std::error_code error;
  return SyncPath(std::filesystem::absolute(path, error).parent_path());
}

}  // namespace

absl::Status ErrnoError(int error, const char* operation, const std::string& path) {
  const std::string message = absl::StrCat(operation, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return NotFound(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return ResourceExhausted(message);
    case EINVAL:
    case EISDIR:
      return InvalidArgument(message);
    case ESTALE:  // of a network file system; the name leads to another file by now
      return Unavailable(message);
    default:
      return Internal(message);
  }
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<FileDescriptor> FileDescriptor::Open(const std::string& path, int flags, int mode) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, mode));
  if (file.fd() < 0) return ErrnoError(errno, "open", path);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  struct stat status {};
  // Opening a pipe would wait for a process that writes to it.
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return InvalidArgument(
        path, ": ",
        S_ISDIR(status.st_mode) ? "is a folder, expected a file" : "not a regular file");
  HMANN_ASSIGN_OR_RETURN(const FileDescriptor source, FileDescriptor::Open(path, O_RDONLY));
  if (::fstat(source.fd(), &status) != 0) return ErrnoError(errno, "stat", path);
  MappedFile file;
  file.path_ = path;
  file.inode_ = {status.st_dev, status.st_ino};
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes == 0) return file;
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, source.fd(), 0);
  if (data == MAP_FAILED) return ErrnoError(errno, "mmap", path);
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = bytes;
  return file;
}

FileDescriptor MappedFile::Reopen() const {
  struct stat status {};
  // O_NONBLOCK: a pipe that has taken its place is not waited for.
  auto file = FileDescriptor::Open(path_, O_RDONLY | O_NONBLOCK);
  const bool same = file.ok() && ::fstat(file->fd(), &status) == 0 &&
                    inode_ == std::pair<std::uint64_t, std::uint64_t>(status.st_dev, status.st_ino);
  return same ? *std::move(file) : FileDescriptor();
}

void MappedFile::Advise(Access access, std::uint64_t offset, std::uint64_t bytes) const {
  if (offset >= size_) return;
  const std::uint64_t begin = offset / 4_KiB * 4_KiB;
  const std::uint64_t end = std::min<std::uint64_t>(size_, offset + bytes);
  const int advice = access == Access::kRandom       ? MADV_RANDOM
                     : access == Access::kSequential ? MADV_SEQUENTIAL
                                                     : MADV_DONTNEED;
  ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, advice);
}

std::optional<double> ShareInMemory(std::span<const std::byte> mapped) {
  std::vector<unsigned char> pages((mapped.size() + 4_KiB - 1) / 4_KiB);
  if (::mincore(const_cast<std::byte*>(mapped.data()), mapped.size(), pages.data()) != 0)
    return std::nullopt;
  const auto there =
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  return static_cast<double>(there) / static_cast<double>(pages.size());
}

absl::StatusOr<std::string> FileToWrite(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  const char* found = path == "-" ? "is stdout (./- is a file)" : FoundInstead(type);
  fs::path to = path;
  if (type == fs::file_type::none) return ErrnoError(error.value(), "stat", path);
  while (found == nullptr && fs::is_symlink(fs::symlink_status(to, error))) {
    const fs::path target = fs::read_symlink(to, error);
    if (error) return ErrnoError(error.value(), "readlink", to.string());
    to = to.parent_path() / target;
  }
  // Links in /proc lead to files that may have no name. Compared again, because another
  // process may have replaced the file between the two looks.
  const auto same = [&] { return fs::equivalent(path, to, error); };
  if (to != path && type == fs::file_type::regular && !same() && !same() && !same())
    found = "has no name";
  if (found == nullptr) return to.string();
  return InvalidArgument(path, " ", found, ": expected the name of a file");
}

absl::Status CheckNotInput(const std::string& out, std::initializer_list<std::string> inputs) {
  for (const std::string& input : inputs) {
    std::error_code absent;
    if (!input.empty() && std::filesystem::equivalent(input, out, absent))
      return InvalidArgument("out: ", out, " is the input ", input, ", which it would replace");
  }
  return absl::OkStatus();
}

std::string UniqueName(const std::string& path) {
  std::uint64_t random = 0;
  HMANN_CHECK(::getrandom(&random, sizeof(random), 0) == sizeof(random));
  return absl::StrCat(path, ".", ::getpid(), ".", absl::Hex(random, absl::kZeroPad16));
}

bool IsTemporaryName(std::string_view name) {
  const std::size_t digits = name.rfind('.');
  if (digits == name.npos || name.size() - digits != 17 ||
      name.find_first_not_of("0123456789abcdef", digits + 1) != name.npos)
    return false;
  const std::size_t pid = name.substr(0, digits).rfind('.');
  return pid != name.npos && pid + 1 < digits && name.substr(0, pid).ends_with(kTemporary) &&
         name.find_first_not_of("0123456789", pid + 1) == digits;
}

void RemoveIfDead(const std::string& temporary) {
  const auto file = FileDescriptor::Open(temporary, O_RDWR | O_NONBLOCK | O_NOFOLLOW);
  if (file.ok() && ::flock(file->fd(), LOCK_EX | LOCK_NB) == 0) ::unlink(temporary.c_str());
}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(file_, other.file_);
  std::swap(size_, other.size_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (file_.fd() >= 0) ::unlink(temporary_.c_str());
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  AtomicFile file;
  HMANN_ASSIGN_OR_RETURN(file.path_, FileToWrite(path));
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  struct stat status {};
  // RemoveIfDead of another process may lock this file before it is locked here.
  do {
    file.temporary_ = UniqueName(file.path_ + kTemporary);
    file.file_ = FileDescriptor(::open(file.temporary_.c_str(), kFlags, 0644));
    if (file.file_.fd() < 0 && errno == ENOENT)
      return NotFound("create ", file.path_, ": its folder does not exist: make it first");
    if (file.file_.fd() < 0) return ErrnoError(errno, "create", file.path_);
    ::flock(file.file_.fd(), LOCK_EX);
    if (::fstat(file.file_.fd(), &status) != 0) return ErrnoError(errno, "stat", file.temporary_);
  } while (status.st_nlink == 0);
  return file;
}

absl::Status AtomicFile::Append(const void* data, std::size_t bytes) {
  const char* text = static_cast<const char*>(data);
  if (buffer_.size() + bytes > kWriteBuffer) HMANN_RETURN_IF_ERROR(Flush());
  if (bytes > kWriteBuffer) {
    HMANN_RETURN_IF_ERROR(WriteFully(file_.fd(), path_, size_, text, bytes));
  } else {
    buffer_.append(text, bytes);
  }
  size_ += bytes;
  return absl::OkStatus();
}

absl::Status AtomicFile::WriteAt(std::uint64_t offset, const void* data, std::size_t bytes) {
  HMANN_RETURN_IF_ERROR(Flush());
  if (offset + bytes > size_)
    return absl::OutOfRangeError(absl::StrCat(path_, ": WriteAt past the end"));
  return WriteFully(file_.fd(), path_, offset, static_cast<const char*>(data), bytes);
}

absl::Status AtomicFile::ExtendTo(std::uint64_t size) {
  HMANN_RETURN_IF_ERROR(Flush());
  if (size < size_)
    return absl::OutOfRangeError(absl::StrCat(path_, ": ExtendTo would shrink the file"));
  if (::ftruncate(file_.fd(), static_cast<off_t>(size)) != 0)
    return ErrnoError(errno, "truncate", path_);
  size_ = size;
  return absl::OkStatus();
}

absl::Status AtomicFile::Flush() {
  const std::string pending = std::move(buffer_);
  buffer_.clear();
  return WriteFully(file_.fd(), path_, size_ - pending.size(), pending.data(), pending.size());
}

absl::StatusOr<std::string> AtomicFile::Written() {
  HMANN_RETURN_IF_ERROR(Flush());
  return temporary_;
}
absl::Status AtomicFile::Commit() {
  HMANN_RETURN_IF_ERROR(Flush());
  if (::fsync(file_.fd()) != 0) return ErrnoError(errno, "fsync", path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return ErrnoError(errno, "rename", path_);
  file_ = FileDescriptor();
  return SyncFolderOf(path_);
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? ErrnoError(error.value(), "mkdir", path) : absl::OkStatus();
}

absl::Status SyncPath(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const FileDescriptor file, FileDescriptor::Open(path, O_RDONLY));
  return ::fsync(file.fd()) == 0 ? absl::OkStatus() : ErrnoError(errno, "fsync", path);
}

absl::StatusOr<NewFolder> NewFolder::Make(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error))
    return absl::AlreadyExistsError(absl::StrCat(path, ": is there already"));
  NewFolder folder;
  folder.path_ = std::filesystem::path(path).lexically_normal().string();
  while (folder.path_.ends_with('/')) folder.path_.pop_back();
  folder.temporary_ = UniqueName(folder.path_ + kTemporary);
  HMANN_RETURN_IF_ERROR(MakeFolders(folder.temporary_));
  return folder;
}

NewFolder& NewFolder::operator=(NewFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  return *this;
}

NewFolder::~NewFolder() {
  std::error_code error;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, error);
}

absl::Status NewFolder::Commit() {
  HMANN_RETURN_IF_ERROR(SyncPath(temporary_));
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return ErrnoError(errno, "rename", path_);
  temporary_.clear();
  return SyncFolderOf(path_);
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, std::uint64_t most) {
  HMANN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  if (file.bytes().size() > most)
    return InvalidArgument(path, ": ", file.bytes().size(), " bytes, at most ", most, " expected");
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

absl::Status WriteTextFile(const std::string& path, std::string_view text) {
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  HMANN_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

}  // namespace hmann
