#include <numaif.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "index/base/buffer.h"
#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/thread_pool.h"
#include "index/base/units.h"
#include "index/tiers/region_builder.h"

namespace hmann {
namespace {

constexpr std::size_t kPage = 4_KiB;
constexpr std::size_t kHugePage = 2_MiB;

absl::Status BindToNode(void* data, std::size_t bytes, int node, const std::string& tier) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  unsigned long nodes[1024 / kBits] = {};
  nodes[static_cast<std::size_t>(node) / kBits] |= 1ul << (static_cast<std::size_t>(node) % kBits);
  if (::mbind(data, bytes, MPOL_BIND, nodes, 1024, MPOL_MF_STRICT) != 0) return ErrnoError(errno, "mbind", tier);
  return absl::OkStatus();
}

}  // namespace

Region::Region(Region&& other) noexcept { *this = std::move(other); }

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(capacity_, other.capacity_);
  std::swap(file_, other.file_);
  std::swap(file_backed_, other.file_backed_);
  std::swap(warning_, other.warning_);
  return *this;
}

Region::~Region() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_bytes_);
}

absl::StatusOr<RegionBuilder> RegionBuilder::Anonymous(const std::string& tier, std::uint64_t bytes, std::optional<int> node) {
  RegionBuilder builder;
  if (bytes == 0) return builder;
  if (const std::uint64_t usable = UsableMemoryBytes(); bytes > usable) {
    return absl::ResourceExhaustedError(absl::StrCat("tier ", tier, ": ", bytes, " bytes (", FormatSize(bytes), ") are needed; ", usable,
                                                     " (", FormatSize(usable), ") are usable"));
  }
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  const std::size_t used = RoundUp(bytes, alignment);
  const std::size_t mapped = used + alignment + kPage;
  void* mapping = ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return ErrnoError(errno, "mmap", tier);
  auto* data = reinterpret_cast<std::byte*>(RoundUp(reinterpret_cast<std::uintptr_t>(mapping) + kPage, alignment));
  builder.region_.mapping_ = mapping;
  builder.region_.mapping_bytes_ = mapped;
  builder.region_.data_ = data;
  builder.region_.size_ = bytes;
  builder.region_.capacity_ = used;
  if (::mprotect(data, used, PROT_READ | PROT_WRITE) != 0) return ErrnoError(errno, "mprotect", tier);
  if (alignment == kHugePage) ::madvise(data, used, MADV_HUGEPAGE);
  if (node.has_value()) {
    if (absl::Status status = BindToNode(data, used, *node, tier); !status.ok()) return status;
  }
  return builder;
}

Region RegionBuilder::InPlace(std::span<const std::byte> bytes) {
  Region region;
  region.data_ = bytes.data();
  region.size_ = bytes.size();
  region.capacity_ = RoundUp(bytes.size(), kPage);
  region.file_backed_ = true;
  return region;
}

Region RegionBuilder::OfFile(MappedFile file, std::size_t bytes) {
  Region region = InPlace(file.bytes().first(bytes));
  region.file_ = std::move(file);
  return region;
}

void RegionBuilder::Fill(std::span<const std::byte> source, Progress& progress) {
  constexpr std::size_t kStep = 4_MiB;
  auto* to = const_cast<std::byte*>(region_.data_);
  const auto copy = [&](std::size_t begin, std::size_t end, int) {
    std::memcpy(to + begin, source.data() + begin, end - begin);
    progress.Advance(end - begin);
  };
  if (source.empty()) return;
  if (source.size() <= kStep) return copy(0, source.size(), 0);
  ThreadPool pool(std::min(UsableCores(), 8));
  pool.ParallelFor(source.size(), kStep, copy);
}

void RegionBuilder::Lock(const std::string& tier) {
  if (region_.size_ == 0 || ::mlock(region_.data_, region_.capacity_) == 0) return;
  const int error = errno;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  region_.warning_ =
      absl::StrCat("tier ", tier, ": ", FormatSize(region_.size_), " are not locked and may be paged out: mlock: ", std::strerror(error),
                   "; RLIMIT_MEMLOCK is ", limit.rlim_cur == RLIM_INFINITY ? "unlimited" : FormatSize(limit.rlim_cur));
}

absl::StatusOr<Region> RegionBuilder::Seal() && {
  if (region_.size_ > 0 && ::mprotect(const_cast<std::byte*>(region_.data_), region_.capacity_, PROT_READ) != 0) {
    return ErrnoError(errno, "mprotect", "a filled region");
  }
  return std::move(region_);
}

}  // namespace hmann
