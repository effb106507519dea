#include "index/tiers/direct_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "index/base/buffer.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/device_name.h"

namespace hmann {
namespace {

absl::Status RefusesDirect(const std::string& tier, const std::string& path, const char* operation,
                           int error) {
  return FailedPrecondition("tier ", tier, ": ", path, ": its file system refuses O_DIRECT (",
                            operation, ": ", std::strerror(error),
                            "): use mapped, or nvme:PATH with a path on a disk");
}

std::uint32_t SectorBytes(int fd) {
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    const std::uint32_t sector =
        std::max({512u, status.stx_dio_mem_align, status.stx_dio_offset_align});
    if (kDirectBlock % sector == 0) return sector;
  }
#endif
  return kDirectBlock;
}

/// Share of [begin, begin + bytes) of the file in the page cache, if the kernel reports
/// it correctly. Since Linux 5.2 it does so only to processes that may write the file.
std::optional<double> CachedShare(const DirectFile& file, std::uint64_t begin,
                                  std::uint64_t bytes) {
  if (!file.may_write()) return std::nullopt;
  void* mapping =
      ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.fd(), static_cast<off_t>(begin));
  if (mapping == MAP_FAILED) return std::nullopt;
  const std::optional<double> share =
      ShareInMemory({static_cast<const std::byte*>(mapping), bytes});
  ::munmap(mapping, bytes);
  return share;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const DirectFile>> DirectFile::Open(const std::string& tier,
                                                                   const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (fd < 0 && errno == EINVAL) return RefusesDirect(tier, path, "open", errno);
  if (fd < 0) return ErrnoError(errno, "open", path);
  auto file = std::make_shared<DirectFile>(fd, path);
  struct stat status {};
  if (::fstat(fd, &status) != 0) return ErrnoError(errno, "stat", path);
  if (!S_ISREG(status.st_mode))
    return InvalidArgument("tier ", tier, ": ", path, ": not a regular file");
  file->device_ = DeviceOfFile(fd);
  file->sector_bytes_ = SectorBytes(fd);
  file->may_write_ =
      status.st_uid == ::geteuid() || ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
  return file;
}

absl::StatusOr<std::uint64_t> DirectFile::Size() const {
  struct stat status {};
  if (::fstat(fd(), &status) != 0) return ErrnoError(errno, "stat", path_);
  return static_cast<std::uint64_t>(status.st_size);
}

absl::Status DirectExtent::Check(const BlockRead& read, const ReaderOptions& options) const {
  const std::uint64_t end = RoundUp(bytes, kDirectBlock);
  const char* wrong = nullptr;
  if (const std::uint32_t sector = file->sector_bytes();
      read.bytes == 0 || read.bytes % sector != 0 || read.offset % sector != 0) {
    wrong = "not a multiple of its sectors";
  } else if (read.offset >= end || read.bytes > end - read.offset) {
    wrong = "outside the region";
  } else if (read.frame >= options.frames || read.bytes > options.frame_bytes) {
    wrong = "not in a frame";
  }
  if (wrong == nullptr) return absl::OkStatus();
  return InvalidArgument(file->path(), ": read of ", read.bytes, " bytes at ", read.offset, " of ",
                         bytes, " into frame ", read.frame, " (", options.frames, " of ",
                         options.frame_bytes, " bytes): ", wrong);
}

absl::Status DirectExtent::Reserve(std::span<const BlockRead> reads, const ReaderOptions& options,
                                   std::vector<bool>* busy) const {
  for (std::size_t i = 0; i < reads.size(); ++i) {
    absl::Status status = Check(reads[i], options);
    if (status.ok() && (*busy)[reads[i].frame]) {
      status = InvalidArgument(file->path(), ": frame ", reads[i].frame,
                               ": a read into it is in flight");
    }
    if (!status.ok()) {
      for (std::size_t j = 0; j < i; ++j) (*busy)[reads[j].frame] = false;
      return status;
    }
    (*busy)[reads[i].frame] = true;
  }
  return absl::OkStatus();
}

absl::Status DirectExtent::Judge(std::uint64_t offset, std::uint64_t wanted,
                                 std::int64_t result) const {
  const std::uint64_t needed = std::min(wanted, bytes - offset);
  if (result >= 0 && static_cast<std::uint64_t>(result) >= needed) return absl::OkStatus();
  const std::string found = result < 0 ? std::string(std::strerror(static_cast<int>(-result)))
                                       : absl::StrCat(result, " bytes");
  return DataLoss(file->path(), ": offset ", begin + offset, ": expected ", needed,
                  " bytes, found ", found);
}

absl::Status DirectExtent::Probe(const std::string& tier, std::span<const std::byte> source) const {
  HMANN_ASSIGN_OR_RETURN(Buffer block, Buffer::Allocate(kDirectBlock));
  for (const std::uint64_t offset : {std::uint64_t{0}, (bytes - 1) / kDirectBlock * kDirectBlock}) {
    const ssize_t read =
        ::pread(file->fd(), block.data(), kDirectBlock, static_cast<off_t>(begin + offset));
    if (read < 0 && errno == EINVAL) return RefusesDirect(tier, file->path(), "read", errno);
    HMANN_RETURN_IF_ERROR(Judge(offset, kDirectBlock, read < 0 ? -errno : read));
    const std::size_t part = std::min<std::size_t>(kDirectBlock, bytes - offset);
    if (std::memcmp(block.data(), source.data() + offset, part) == 0) continue;
    return DataLoss("tier ", tier, ": ", file->path(), ": offset ", begin + offset,
                    ": expected the bytes of the ",
                    "index that is open, found others: was the file replaced?");
  }
  return absl::OkStatus();
}

void DirectExtent::Where(MemoryResidency* where) const {
  where->device = absl::StrCat("O_DIRECT from ", file->device(), " (file ", file->path(), ")");
  where->cached = CachedShare(*file, begin, bytes);
}

}  // namespace hmann
