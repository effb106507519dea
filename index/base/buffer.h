#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"

namespace hmann {

/// Zeroed anonymous memory of its own mapping, aligned to 2 MiB and advised to use 2 MiB
/// pages when it is that large. Move-only; unmapped by the destructor. Where memory lies
/// is the tiers' business: see index/tiers.
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
  /// Room of whole pages, for files to be mapped into; it takes no memory. Errors: as
  /// Allocate.
  static absl::StatusOr<Buffer> Reserve(std::size_t bytes);
  /// The same memory as `shared`, which lives as long as either.
  static Buffer Of(std::shared_ptr<Buffer> shared);
  /// Memory of somebody else, which must outlive it.
  static Buffer View(const std::byte* data, std::size_t bytes);

  /// What Allocate gave, longer or shorter: it may move, and what is new is zero. Errors:
  /// as Allocate.
  absl::Status Resize(std::size_t bytes);

  /// Files mapped into it are read here and there from now on, or forwards again.
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

/// Smallest multiple of `granule` that is not below `bytes`.
constexpr std::uint64_t RoundUp(std::uint64_t bytes, std::uint64_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace hmann
