#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "index/base/buffer.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/device_name.h"
#include "index/tiers/kinds.h"
#include "index/tiers/region_builder.h"
#include "index/tiers/stream_copy.h"
#include "index/tiers/tier_copy.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

bool IsBlank(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

class DaxTier : public Tier {
 public:
  explicit DaxTier(std::string path)
      : Tier({.name = absl::StrCat("dax:", path), .one_section = true}), path_(std::move(path)) {}

  absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const override {
    if (source.bytes.empty()) return Region();
    struct stat status {};
    const bool exists = ::stat(path_.c_str(), &status) == 0;
    if (exists && S_ISCHR(status.st_mode)) return PlaceOnDevice(status.st_rdev, source, progress);
    if (exists && !S_ISREG(status.st_mode)) {
      return InvalidArgument("tier ", traits().name,
                             ": expected a file on a DAX file system or a devdax node");
    }
    HMANN_RETURN_IF_ERROR(TryFolder());
    HMANN_RETURN_IF_ERROR(EnsureCopy(traits().name, path_, source, progress));
    return MapFile(source.bytes.size());
  }

 private:
  absl::Status NoDax(int error) const {
    return FailedPrecondition("tier ", traits().name, ": the file system of ", path_,
                              " does not do DAX (mmap with MAP_SYNC: ", std::strerror(error),
                              "): use mapped:", path_, ", or mount it with -o dax");
  }
  static void* MapSync(int fd, std::size_t bytes) {
    return ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
  }

  /// Uses a nameless file to test whether files in the folder can be mapped with DAX,
  /// before much is copied there.
  absl::Status TryFolder() const {
    const fs::path folder = fs::path(path_).parent_path();
    const std::string name = folder.empty() ? "." : folder.string();
    const FileDescriptor file(::open(name.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file.fd() < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
      return absl::OkStatus();  // no such files here: the copy will tell
    if (file.fd() < 0) return ErrnoError(errno, "open", folder.string());
    if (::ftruncate(file.fd(), 4_KiB) != 0) return ErrnoError(errno, "truncate", folder.string());
    void* mapping = MapSync(file.fd(), 4_KiB);
    if (mapping == MAP_FAILED) return NoDax(errno);
    ::munmap(mapping, 4_KiB);
    return absl::OkStatus();
  }

  absl::StatusOr<Region> MapFile(std::size_t bytes) const {
    HMANN_ASSIGN_OR_RETURN(const FileDescriptor file, FileDescriptor::Open(path_, O_RDONLY));
    struct stat status {};
    if (::fstat(file.fd(), &status) != 0) return ErrnoError(errno, "stat", path_);
    if (static_cast<std::uint64_t>(status.st_size) < bytes) {
      return DataLoss("tier ", traits().name, ": expected ", bytes, " bytes, found a file of ",
                      status.st_size);
    }
    const std::size_t mapped = RoundUp(bytes, 4_KiB);
    void* mapping = MapSync(file.fd(), mapped);
    if (mapping == MAP_FAILED) return NoDax(errno);
    return RegionBuilder::OfMapping(
               {static_cast<std::byte*>(mapping), mapped}, bytes,
               absl::StrCat("DAX from ", DeviceOfFile(file.fd()), " (file ", path_, ")"),
               DeviceNode(SysfsOfFile(file.fd())))
        .Seal();
  }

  absl::StatusOr<Region> PlaceOnDevice(dev_t device, const PlacementSource& source,
                                       Progress& progress) const {
    const std::string sysfs = SysfsOfCharacterDevice(device);
    std::error_code error;
    if (fs::canonical(absl::StrCat(sysfs, "/subsystem"), error).filename() != "dax" || error) {
      return InvalidArgument("tier ", traits().name,
                             ": expected a devdax node, found another character device");
    }
    std::uint64_t size = 0;
    const std::optional<std::string> text = DeviceAttribute(sysfs, "size");
    const std::uint64_t needed =
        RoundUp(source.bytes.size(), CopyTrailer::kBytes) + CopyTrailer::kBytes;
    if (!text.has_value() || !absl::SimpleAtoi(*text, &size) || size < needed) {
      return ResourceExhausted("tier ", traits().name, ": ", needed,
                               " bytes are needed, found a device of ",
                               text.value_or("unknown size"));
    }
    HMANN_ASSIGN_OR_RETURN(const FileDescriptor file, FileDescriptor::Open(path_, O_RDWR));
    void* mapping = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
    if (mapping == MAP_FAILED) return ErrnoError(errno, "mmap", path_);
    const std::span<std::byte> whole(static_cast<std::byte*>(mapping), size);
    RegionBuilder builder = RegionBuilder::OfMapping(
        whole, source.bytes.size(), absl::StrCat("DAX from ", path_), DeviceNode(sysfs));
    HMANN_RETURN_IF_ERROR(FillDevice(builder, whole, source, progress));
    return std::move(builder).Seal();
  }

  /// An unfinished copy has a length of 0 bytes, so that the next start may begin again.
  absl::Status FillDevice(RegionBuilder& builder, std::span<std::byte> whole,
                          const PlacementSource& source, Progress& progress) const {
    const CopyTrailer wanted(source.bytes.size(), source.checksum);
    const std::optional<CopyTrailer> found = CopyTrailer::Find(whole);
    if (found.has_value() && found->self == wanted.self) return absl::OkStatus();
    const std::size_t looked_at = std::min<std::size_t>(whole.size(), 2_MiB);
    if (!found.has_value() &&
        !(IsBlank(whole.first(looked_at)) && IsBlank(whole.last(CopyTrailer::kBytes)))) {
      return absl::AlreadyExistsError(absl::StrCat(
          "tier ", traits().name,
          ": the device holds something that hmann did not put there; it is ",
          "left alone: write zeros to its first 2 MiB and its last 4 KiB if it may be used"));
    }
    WriteTrailer(CopyTrailer(0, 0), whole);
    progress.Start(absl::StrCat("load into ", traits().name), source.bytes.size(), "bytes");
    HMANN_RETURN_IF_ERROR(builder.Fill(source, progress));
    progress.Finish();
    WriteTrailer(wanted, whole);
    return absl::OkStatus();
  }

  static void WriteTrailer(const CopyTrailer& trailer, std::span<std::byte> whole) {
    std::byte block[CopyTrailer::kBytes] = {};
    std::memcpy(block, &trailer, sizeof(trailer));
    StreamCopy(whole.data() + whole.size() - sizeof(block), block, sizeof(block));
  }

  std::string path_;
};

}  // namespace

std::unique_ptr<Tier> MakeDaxTier(std::string path) {
  return std::make_unique<DaxTier>(std::move(path));
}

}  // namespace hmann
