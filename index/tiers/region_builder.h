#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/progress.h"
#include "hmann/tier.h"
#include "index/base/file.h"
#include "index/tiers/emulation.h"

namespace hmann {

struct Region::Parts {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  MappedFile file;                    ///< holds the bytes, if the region has its own file
  std::shared_ptr<const void> owner;  ///< of bytes that the region does not own
  void* mapping = nullptr;            ///< for munmap, if the region has its own memory
  std::size_t mapping_bytes = 0;
  std::size_t capacity = 0;  ///< size rounded up to whole pages of the requested kind
  bool file_backed = false;
  bool checked = false;
  std::string device;              ///< as in MemoryResidency, for a DAX tier
  std::optional<int> device_node;  ///< its NUMA node, if the kernel has no pages to query
  std::shared_ptr<const BlockSource> blocks;
  std::shared_ptr<EmulatedBus> bus;
  std::string warning;
};

/// Builds regions for the tiers: a mapping of our own, filled, then sealed; bytes that
/// another owner keeps mapped; or blocks of a device.
class RegionBuilder {
 public:
  /// Anonymous memory between two inaccessible guards, so that smaps reports this region
  /// separately. From 2 MiB on it is aligned to 2 MiB. It is taken from the kernel's pool
  /// of 2 MiB pages if that has enough of them; otherwise it is advised for transparent
  /// ones. With `node`, its pages may come only from that NUMA node. Errors:
  /// RESOURCE_EXHAUSTED; those of mbind(2).
  static absl::StatusOr<RegionBuilder> Anonymous(const std::string& tier, std::uint64_t bytes,
                                                 std::optional<int> node);
  /// A device's or file's memory that was mapped with mmap(2); it is unmapped with the
  /// region. `where`: as MemoryResidency::device.
  static RegionBuilder OfMapping(std::span<std::byte> mapping, std::size_t bytes, std::string where,
                                 std::optional<int> node);

  /// Not owned: the bytes must stay mapped while the region lives.
  static Region InPlace(std::span<const std::byte> bytes);
  /// The first `bytes` bytes of a file that the region keeps mapped.
  static Region OfFile(MappedFile file, std::size_t bytes);

  static void Emulate(Region& region, std::shared_ptr<EmulatedBus> bus);
  /// The source of a block tier's region, to be wrapped.
  static std::shared_ptr<const BlockSource>& Blocks(Region& region);

  /// Copies `source` into the region on a few threads, bypassing the caches. Errors:
  /// DATA_LOSS when the copied bytes have another checksum.
  absl::Status Fill(const PlacementSource& source, Progress& progress);
  /// The bytes before sealing; nullptr where there are none.
  std::byte* data() { return const_cast<std::byte*>(region_.data()); }
  /// Calls mlock. If it is refused, the region says so in its warning and serves
  /// unlocked. Pages of the pool need no lock.
  void Lock(const std::string& tier);
  /// Makes the bytes read-only and hands over the region.
  absl::StatusOr<Region> Seal() &&;

 private:
  bool TakeHugePages(std::optional<int> node);

  Region region_;
  bool pool_pages_ = false;
};

}  // namespace hmann
