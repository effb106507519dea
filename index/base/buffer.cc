#include "index/base/buffer.h"

#include <sys/mman.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "index/base/units.h"

namespace hmann {

Buffer::~Buffer() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

absl::StatusOr<Buffer> Buffer::Allocate(std::size_t bytes) {
  constexpr std::size_t kHugePage = 2_MiB;
  Buffer buffer;
  if (bytes == 0) return buffer;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : 4_KiB;
  const std::size_t mapped = RoundUp(bytes, alignment) + (alignment == kHugePage ? alignment : 0);
  void* mapping = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped < bytes || mapping == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes, " bytes (", FormatSize(bytes), ")"));
  }
  buffer.mapping_ = mapping;
  buffer.mapped_bytes_ = mapped;
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  buffer.data_ = static_cast<std::byte*>(mapping) + (RoundUp(address, alignment) - address);
  buffer.size_ = bytes;
  if (alignment == kHugePage) ::madvise(buffer.data_, RoundUp(bytes, kHugePage), MADV_HUGEPAGE);
  return buffer;
}

absl::StatusOr<Buffer> Buffer::Reserve(std::size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  void* mapping =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot reserve ", bytes, " bytes (", FormatSize(bytes), ")"));
  }
  buffer.mapping_ = mapping;
  buffer.mapped_bytes_ = bytes;
  buffer.data_ = static_cast<std::byte*>(mapping);
  buffer.size_ = bytes;
  return buffer;
}

void Buffer::AdviseRandom(bool random) const {
  if (size_ > 0) ::madvise(mapping_, mapped_bytes_, random ? MADV_RANDOM : MADV_NORMAL);
}

}  // namespace hmann
