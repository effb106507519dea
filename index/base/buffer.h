#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"

namespace hmann {

/// A zeroed, anonymous memory mapping, aligned to 2 MiB and advised to use 2 MiB pages
/// when it is that large, and interleaved over the NUMA nodes that have CPUs. Move-only;
/// the destructor unmaps it. The tiers decide where an index lies: see index/tiers.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~Buffer();

  /// Errors: RESOURCE_EXHAUSTED with the number of bytes when the kernel refuses.
  static absl::StatusOr<Buffer> Allocate(std::size_t bytes);
  /// Reserves whole pages of address space for files to be mapped into; takes no memory.
  /// Errors: as Allocate.
  static absl::StatusOr<Buffer> Reserve(std::size_t bytes);
  /// Shares the memory of `shared`, which lives as long as either of the two.
  static Buffer Of(std::shared_ptr<Buffer> shared);
  /// A view of memory that the caller owns and that must outlive it.
  static Buffer View(const std::byte* data, std::size_t bytes);

  /// Grows or shrinks memory that came from Allocate. The data may move, and new bytes
  /// are zero. Errors: as Allocate.
  absl::Status Resize(std::size_t bytes);

  /// Advises the kernel that the files mapped here are read at random from now on, or
  /// (false) sequentially again.
  void AdviseRandom(bool random) const;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::shared_ptr<Buffer> shared_;
};

/// The smallest multiple of `granule` that is not below `bytes`.
constexpr std::uint64_t RoundUp(std::uint64_t bytes, std::uint64_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace hmann
