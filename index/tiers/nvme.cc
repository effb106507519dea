#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "index/base/buffer.h"
#include "index/base/status_macros.h"
#include "index/tiers/direct_file.h"
#include "index/tiers/kinds.h"
#include "index/tiers/pread_reader.h"
#include "index/tiers/region_builder.h"
#include "index/tiers/ring_reader.h"
#include "index/tiers/tier_copy.h"

namespace hmann {
namespace {

class DirectBlocks : public BlockSource {
 public:
  DirectBlocks(DirectExtent extent, bool ring) : extent_(std::move(extent)), ring_(ring) {}

  absl::StatusOr<std::unique_ptr<BlockReader>> NewReader(
      const ReaderOptions& options) const override {
    if (ring_) {
      auto reader = NewRingReader(extent_, options);
      if (!absl::IsResourceExhausted(reader.status()))
        return reader;  // a user's rings together count against RLIMIT_MEMLOCK
    }
    return NewPreadReader(extent_, options, ::pread);
  }
  std::uint32_t sector_bytes() const override { return extent_.file->sector_bytes(); }
  void Where(MemoryResidency* where) const override { extent_.Where(where); }

 private:
  DirectExtent extent_;
  bool ring_;
};

/// HMANN_IO=pread disables io_uring, as where it is forbidden.
absl::Status WhyNoRing() {
  const char* wish = std::getenv("HMANN_IO");
  return wish != nullptr && std::string_view(wish) == "pread"
             ? Unavailable("io_uring: HMANN_IO=pread")
             : RingUsable();
}

/// Drops from the page cache what no other process has mapped: reads bypass the cache,
/// and memory is expensive. Best effort.
void DropFromPageCache(const DirectExtent& extent, std::span<const std::byte> source) {
  ::madvise(const_cast<std::byte*>(source.data()), source.size(), MADV_PAGEOUT);
  ::posix_fadvise(extent.file->fd(), static_cast<off_t>(extent.begin),
                  static_cast<off_t>(RoundUp(extent.bytes, kDirectBlock)), POSIX_FADV_DONTNEED);
}

absl::StatusOr<Region> PlaceDirect(const std::string& tier, const std::string& path,
                                   std::uint64_t begin, std::span<const std::byte> source) {
  DirectExtent extent;
  HMANN_ASSIGN_OR_RETURN(extent.file, DirectFile::Open(tier, path));
  extent.begin = begin;
  extent.bytes = source.size();
  HMANN_ASSIGN_OR_RETURN(const std::uint64_t size, extent.file->Size());
  if (size < begin || size - begin < source.size()) {
    return DataLoss("tier ", tier, ": ", path, ": offset ", begin, ": expected ", source.size(),
                    " bytes, found a file of ", size);
  }
  HMANN_RETURN_IF_ERROR(extent.Probe(tier, source));
  DropFromPageCache(extent, source);
  std::string warning;
  const absl::Status ring = WhyNoRing();
  if (absl::IsUnavailable(ring)) {
    warning = absl::StrCat("tier ", tier, ": ", ring.message(), ": ", kPreadThreads,
                           " threads with pread serve each reader instead");
  } else if (!ring.ok()) {
    return ring;
  }
  return Region::OfBlocks(std::make_shared<DirectBlocks>(std::move(extent), ring.ok()),
                          source.size(), std::move(warning));
}

class NvmeTier : public Tier {
 public:
  NvmeTier() : Tier({.name = "nvme", .addressable = false}) {}

  absl::StatusOr<Region> Place(const PlacementSource& source, Progress&) const override {
    if (source.bytes.empty()) return Region();
    if (source.path.empty() || source.file_offset % kDirectBlock != 0) {
      return InvalidArgument(
          "tier nvme: expected an index file and an offset of 4 KiB blocks, found '", source.path,
          "' at ", source.file_offset);
    }
    return PlaceDirect(traits().name, source.path, source.file_offset, source.bytes);
  }
};

class NvmeCopyTier : public Tier {
 public:
  explicit NvmeCopyTier(std::string path)
      : Tier({.name = absl::StrCat("nvme:", path), .addressable = false, .one_section = true}),
        path_(std::move(path)) {}

  absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const override {
    if (source.bytes.empty()) return Region();
    HMANN_RETURN_IF_ERROR(EnsureCopy(traits().name, path_, source, progress));
    return PlaceDirect(traits().name, path_, 0, source.bytes);
  }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<Tier> MakeNvmeTier() { return std::make_unique<NvmeTier>(); }
std::unique_ptr<Tier> MakeNvmeCopyTier(std::string path) {
  return std::make_unique<NvmeCopyTier>(std::move(path));
}

}  // namespace hmann
