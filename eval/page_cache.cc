#include "eval/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::eval {

absl::StatusOr<double> ShareInPageCache(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  if (file.bytes().empty()) return 0;
  std::vector<unsigned char> pages((file.bytes().size() + 4_KiB - 1) / 4_KiB);
  if (::mincore(const_cast<std::byte*>(file.bytes().data()), file.bytes().size(), pages.data()) !=
      0)
    return ErrnoError(errno, "mincore", path);
  const auto there =
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  return static_cast<double>(there) / static_cast<double>(pages.size());
}

absl::StatusOr<double> DropFromPageCache(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoError(errno, "open", path);
  const int synced = ::fdatasync(fd) == 0 ? 0 : errno;  // the kernel does not drop dirty
                                                        // pages
  const int dropped = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  if (synced != 0) return ErrnoError(synced, "fdatasync", path);
  if (dropped != 0) return ErrnoError(dropped, "fadvise", path);
  return ShareInPageCache(path);
}

}  // namespace hmann::eval
