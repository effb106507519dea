#include "index/base/buffer.h"

#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr std::size_t kHugePage = 2_MiB;

absl::Status Refused(const char* what, std::size_t bytes) {
  return ResourceExhausted("cannot ", what, " ", bytes, " bytes (", FormatSize(bytes), ")");
}

/// The NUMA nodes that have CPUs; nullptr if that is not known, or if there is one.
const bitmask* NodesWithCpus() {
  std::ifstream list("/sys/devices/system/node/has_cpu");
  std::string text;
  if (::numa_available() < 0 || !std::getline(list, text)) return nullptr;
  const bitmask* const nodes = ::numa_parse_nodestring_all(text.c_str());
  return nodes != nullptr && ::numa_bitmask_weight(nodes) > 1 ? nodes : nullptr;
}

/// Spreads memory over those nodes unless the user has a policy of his own: threads of
/// all of them read it. Memory without CPUs is left to its tier.
void Interleave(void* memory, std::size_t bytes) {
  static const bitmask* const nodes = NodesWithCpus();
  int policy = MPOL_DEFAULT;
  if (nodes == nullptr || ::get_mempolicy(&policy, nullptr, 0, nullptr, 0) != 0 ||
      policy != MPOL_DEFAULT)
    return;
  ::mbind(memory, bytes, MPOL_INTERLEAVE, nodes->maskp, nodes->size + 1, 0);
}

}  // namespace

Buffer::~Buffer() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

absl::StatusOr<Buffer> Buffer::Allocate(std::size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : 4_KiB;
  const std::size_t mapped = RoundUp(bytes, alignment) + (alignment == kHugePage ? alignment : 0);
  void* mapping = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped < bytes || mapping == MAP_FAILED) return Refused("allocate", bytes);
  buffer.mapping_ = mapping;
  buffer.mapped_bytes_ = mapped;
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  buffer.data_ = static_cast<std::byte*>(mapping) + (RoundUp(address, alignment) - address);
  buffer.size_ = bytes;
  // Advise the whole mapping: Resize can move one mapping, not two.
  if (alignment == kHugePage) {
    ::madvise(mapping, mapped, MADV_HUGEPAGE);
    Interleave(mapping, mapped);
  }
  return buffer;
}

absl::StatusOr<Buffer> Buffer::Reserve(std::size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  void* mapping =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return Refused("reserve", bytes);
  buffer.mapping_ = mapping;
  buffer.mapped_bytes_ = bytes;
  buffer.data_ = static_cast<std::byte*>(mapping);
  buffer.size_ = bytes;
  return buffer;
}

Buffer Buffer::Of(std::shared_ptr<Buffer> shared) {
  Buffer buffer;
  buffer.data_ = shared->data_;
  buffer.size_ = shared->size_;
  buffer.shared_ = std::move(shared);
  return buffer;
}

Buffer Buffer::View(const std::byte* data, std::size_t bytes) {
  Buffer buffer;
  buffer.data_ = const_cast<std::byte*>(data);
  buffer.size_ = bytes;
  return buffer;
}

absl::Status Buffer::Resize(std::size_t bytes) {
  if (mapping_ == nullptr) {
    HMANN_ASSIGN_OR_RETURN(*this, Allocate(bytes));
    return absl::OkStatus();
  }
  const auto before = static_cast<std::size_t>(data_ - static_cast<std::byte*>(mapping_));
  const std::size_t mapped = RoundUp(before + std::max<std::size_t>(bytes, 1), 4_KiB);
  void* const moved = ::mremap(mapping_, mapped_bytes_, mapped, MREMAP_MAYMOVE);
  if (mapped < bytes || moved == MAP_FAILED) return Refused("allocate", bytes);
  mapping_ = moved;
  mapped_bytes_ = mapped;
  data_ = static_cast<std::byte*>(moved) + before;
  size_ = bytes;
  if (bytes >= kHugePage) ::madvise(mapping_, mapped_bytes_, MADV_HUGEPAGE);
  return absl::OkStatus();
}

void Buffer::AdviseRandom(bool random) const {
  if (size_ > 0) ::madvise(mapping_, mapped_bytes_, random ? MADV_RANDOM : MADV_NORMAL);
}

}  // namespace hmann
