#include <numaif.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/buffer.h"
#include "index/base/chunked_checksum.h"
#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/base/units.h"
#include "index/tiers/region_builder.h"
#include "index/tiers/stream_copy.h"

namespace hmann {
namespace {

constexpr std::size_t kPage = 4_KiB;
constexpr std::size_t kHugePage = 2_MiB;

/// Bytes of free 2 MiB pages in the kernel's pool, on one node or on all.
std::uint64_t FreePoolBytes(std::optional<int> node) {
  const std::string folder =
      node.has_value() ? absl::StrCat("/sys/devices/system/node/node", *node, "/hugepages/")
                       : std::string("/sys/kernel/mm/hugepages/");
  std::ifstream file(absl::StrCat(folder, "hugepages-2048kB/free_hugepages"));
  std::uint64_t pages = 0;
  return file >> pages ? pages * kHugePage : 0;
}

absl::Status BindToNode(void* data, std::size_t bytes, int node, const std::string& tier) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  unsigned long nodes[1024 / kBits] = {};
  nodes[static_cast<std::size_t>(node) / kBits] |= 1ul << (static_cast<std::size_t>(node) % kBits);
  if (::mbind(data, bytes, MPOL_BIND, nodes, 1024, MPOL_MF_STRICT) != 0)
    return ErrnoError(errno, "mbind", tier);
  return absl::OkStatus();
}

/// Copies and hashes while the bytes are in the nearest cache, so that memory is read
/// once.
std::uint64_t CopyAndDigest(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kPiece = 16_KiB;
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t size = std::min<std::size_t>(kPiece, bytes - at);
    XXH3_64bits_update(&state, from + at, size);
    StreamCopy(to + at, from + at, size);
  }
  return XXH3_64bits_digest(&state);
}

/// The same by reading the file, which costs no page fault for each page. Returns an
/// errno; ENODATA: the file ends before.
int ReadAndDigest(const PlacementSource& source, std::size_t at, std::span<std::byte> to,
                  std::uint64_t* digest) {
  constexpr std::size_t kPiece = 128_KiB;  // stays in the L2 cache until it is digested
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (std::size_t done = 0; done < to.size();) {
    const ::ssize_t got = ::pread(source.fd, to.data() + done, std::min(kPiece, to.size() - done),
                                  static_cast<::off_t>(source.file_offset + at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : ENODATA;
    XXH3_64bits_update(&state, to.data() + done, static_cast<std::size_t>(got));
    done += static_cast<std::size_t>(got);
  }
  *digest = XXH3_64bits_digest(&state);
  return 0;
}

}  // namespace

Region::Region() : parts_(std::make_unique<Parts>()) {}
Region::Region(Region&& other) noexcept : Region() { std::swap(parts_, other.parts_); }
Region& Region::operator=(Region&& other) noexcept {
  std::swap(parts_, other.parts_);
  return *this;
}
Region::~Region() {
  if (parts_->mapping != nullptr) ::munmap(parts_->mapping, parts_->mapping_bytes);
}

Region Region::OfMemory(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  Region region;
  region.parts_->data = bytes.data();
  region.parts_->size = bytes.size();
  region.parts_->capacity = RoundUp(bytes.size(), kPage);
  region.parts_->owner = std::move(owner);
  return region;
}

Region Region::OfBlocks(std::shared_ptr<const BlockSource> blocks, std::size_t bytes,
                        std::string warning) {
  Region region;
  region.parts_->size = bytes;
  region.parts_->blocks = std::move(blocks);
  region.parts_->warning = std::move(warning);
  return region;
}

bool Region::checked() const { return parts_->checked; }
const std::byte* Region::data() const { return parts_->data; }
std::size_t Region::size() const { return parts_->size; }
const std::string& Region::warning() const { return parts_->warning; }
EmulatedBus* Region::emulated() const { return parts_->bus.get(); }

absl::Status PlacementSource::Check(std::uint64_t found) const {
  return CompareChecksum({path, file_offset, section, bytes.size()}, checksum, found);
}

absl::Status PlacementSource::CheckCopy(std::span<const std::byte> copied) const {
  ChunkedChecksum checksum;
  checksum.Append(copied.data(), copied.size());
  return Check(checksum.Digest());
}

void RegionBuilder::Emulate(Region& region, std::shared_ptr<EmulatedBus> bus) {
  region.parts_->bus = std::move(bus);
}
std::shared_ptr<const BlockSource>& RegionBuilder::Blocks(Region& region) {
  return region.parts_->blocks;
}

std::uint32_t Region::sector_bytes() const { return parts_->blocks->sector_bytes(); }

absl::StatusOr<std::unique_ptr<BlockReader>> Region::NewReader(const ReaderOptions& options) const {
  if (parts_->blocks == nullptr) {
    return Unimplemented(size() == 0 ? "an empty region has no readers"
                                     : "an addressable tier has no readers: use data()");
  }
  HMANN_RETURN_IF_ERROR(options.Validate());
  return parts_->blocks->NewReader(options);
}

absl::StatusOr<RegionBuilder> RegionBuilder::Anonymous(const std::string& tier, std::uint64_t bytes,
                                                       std::optional<int> node) {
  RegionBuilder builder;
  if (bytes == 0) return builder;
  const bool pool = bytes >= kHugePage && FreePoolBytes(node) >= bytes;
  if (const std::uint64_t usable = UsableMemoryBytes(); bytes > usable && !pool) {
    return ResourceExhausted("tier ", tier, ": ", bytes, " bytes (", FormatSize(bytes),
                             ") are needed; ", usable, " (", FormatSize(usable), ") are usable");
  }
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  const std::size_t used = RoundUp(bytes, alignment);
  const std::size_t mapped = used + 2 * alignment;
  void* mapping =
      ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return ErrnoError(errno, "mmap", tier);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  auto* data = static_cast<std::byte*>(mapping) + (RoundUp(address + 1, alignment) - address);
  Region::Parts& parts = *builder.region_.parts_;
  parts.mapping = mapping;
  parts.mapping_bytes = mapped;
  parts.data = data;
  parts.size = bytes;
  parts.capacity = used;
  if (pool && builder.TakeHugePages(node)) return builder;
  if (::mprotect(data, used, PROT_READ | PROT_WRITE) != 0)
    return ErrnoError(errno, "mprotect", tier);
  if (alignment == kHugePage) ::madvise(data, used, MADV_HUGEPAGE);
  if (node.has_value()) HMANN_RETURN_IF_ERROR(BindToNode(data, used, *node, tier));
  return builder;
}

/// Returns false, with ordinary memory in place again, if the pool (or the node's part of
/// it) is too small. Populating detects that, where an access would raise SIGBUS.
bool RegionBuilder::TakeHugePages(std::optional<int> node) {
  auto* data = const_cast<std::byte*>(region_.parts_->data);
  const std::size_t bytes = region_.parts_->capacity;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  constexpr int kHuge2MiB = MAP_HUGETLB | 21 << 26;  // log2 of the size, MAP_HUGE_SHIFT
  if (::mmap(data, bytes, PROT_READ | PROT_WRITE, kFlags | kHuge2MiB, -1, 0) != MAP_FAILED) {
    const bool bound = !node.has_value() || BindToNode(data, bytes, *node, "").ok();
    pool_pages_ = bound && ::madvise(data, bytes, MADV_POPULATE_WRITE) == 0;
  }
  if (!pool_pages_)
    static_cast<void>(::mmap(data, bytes, PROT_NONE, kFlags | MAP_NORESERVE, -1, 0));
  return pool_pages_;
}

RegionBuilder RegionBuilder::OfMapping(std::span<std::byte> mapping, std::size_t bytes,
                                       std::string where, std::optional<int> node) {
  RegionBuilder builder;
  Region::Parts& parts = *builder.region_.parts_;
  parts.data = mapping.data();
  parts.size = bytes;
  parts.mapping = mapping.data();
  parts.mapping_bytes = parts.capacity = mapping.size();
  parts.device = std::move(where);
  parts.device_node = node;
  return builder;
}

Region RegionBuilder::InPlace(std::span<const std::byte> bytes) {
  Region region = Region::OfMemory(bytes, nullptr);
  region.parts_->file_backed = true;
  return region;
}

Region RegionBuilder::OfFile(MappedFile file, std::size_t bytes) {
  Region region = InPlace(file.bytes().first(bytes));
  region.parts_->file = std::move(file);
  return region;
}

absl::Status RegionBuilder::Fill(const PlacementSource& source, Progress& progress) {
  constexpr std::size_t kChunks = 4;  // that a thread takes together
  const std::span<const std::byte> bytes = source.bytes;
  auto* to = const_cast<std::byte*>(region_.data());
  if (bytes.empty()) return absl::OkStatus();
  // Writes to a device go past the cache.
  const bool reads = source.fd >= 0 && region_.parts_->device.empty();
  std::atomic<int> error{0};
  std::vector<std::uint64_t> digests(ChecksumChunks(bytes.size()));
  const auto copy = [&](std::size_t begin, std::size_t end, int) {
    for (std::size_t chunk = begin; chunk < end; ++chunk) {
      const std::size_t at = chunk * kChecksumChunk,
                        size = std::min<std::size_t>(kChecksumChunk, bytes.size() - at);
      if (!reads) {
        digests[chunk] = CopyAndDigest(to + at, bytes.data() + at, size);
      } else if (const int failed = ReadAndDigest(source, at, {to + at, size}, &digests[chunk]);
                 failed != 0) {
        error.store(failed);
      }
      progress.Advance(size);
    }
  };
  if (digests.size() <= kChunks) {
    copy(0, digests.size(), 0);
  } else {
    ThreadPool(std::min(UsableCores(), 8)).ParallelFor(digests.size(), kChunks, copy);
  }
  if (error == ENODATA) {
    return DataLoss(source.path, ": ends within section ", source.section,
                    ", made shorter meanwhile: copy the file anew");
  }
  if (error != 0) return ErrnoError(error, "read", source.path);
  region_.parts_->checked = true;
  return source.Check(ChunkedChecksum::Combine(digests));
}

void RegionBuilder::Lock(const std::string& tier) {
  Region::Parts& parts = *region_.parts_;
  if (parts.size == 0 || pool_pages_ || ::mlock(parts.data, parts.capacity) == 0) return;
  const int error = errno;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  parts.warning = absl::StrCat(
      "tier ", tier, ": ", FormatSize(parts.size),
      " are not locked and may be paged out: mlock: ", std::strerror(error), "; RLIMIT_MEMLOCK is ",
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : FormatSize(limit.rlim_cur));
}

absl::StatusOr<Region> RegionBuilder::Seal() && {
  Region::Parts& parts = *region_.parts_;
  if (parts.size > 0 &&
      ::mprotect(const_cast<std::byte*>(parts.data), parts.capacity, PROT_READ) != 0) {
    return ErrnoError(errno, "mprotect", "a filled region");
  }
  return std::move(region_);
}

}  // namespace hmann
