#include "eval/page_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann::eval {

absl::StatusOr<double> ShareInPageCache(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  if (file.bytes().empty()) return 0;
  const std::optional<double> share = ShareInMemory(file.bytes());
  return share ? absl::StatusOr<double>(*share) : ErrnoError(errno, "mincore", path);
}

absl::StatusOr<double> DropFromPageCache(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const FileDescriptor file, FileDescriptor::Open(path, O_RDONLY));
  // The kernel does not drop dirty pages.
  if (::fdatasync(file.fd()) != 0) return ErrnoError(errno, "fdatasync", path);
  const int dropped = ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  if (dropped != 0) return ErrnoError(dropped, "fadvise", path);
  return ShareInPageCache(path);
}

}  // namespace hmann::eval
