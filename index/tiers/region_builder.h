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
  MappedFile file;  ///< that holds the bytes, if they are a file of the region's own
  std::shared_ptr<const void> owner;  ///< of bytes that are somebody else's
  void* mapping = nullptr;            ///< what munmap gets, if they are memory of its own
  std::size_t mapping_bytes = 0;
  std::size_t capacity = 0;  ///< size rounded up to whole pages of the kind that was asked for
  bool file_backed = false;
  bool checked = false;
  std::string device;              ///< as in Whereabouts, of a DAX tier
  std::optional<int> device_node;  ///< its NUMA node, where the kernel keeps no pages to be asked
  std::shared_ptr<const BlockSource> blocks;
  std::shared_ptr<EmulatedBus> bus;
  std::string warning;
};

/// How tiers make regions: a mapping of our own, filled, then sealed; bytes that somebody
/// else keeps mapped; or blocks of a device.
class RegionBuilder {
 public:
  /// Anonymous memory between two inaccessible guards (so that smaps speaks of this
  /// region alone). From 2 MiB on it is aligned to 2 MiB and taken from the kernel's pool
  /// of 2 MiB pages if that has enough of them, else advised for transparent ones. With
  /// `node`, its pages may come from that NUMA node only. Errors: RESOURCE_EXHAUSTED;
  /// those of mbind(2).
  static absl::StatusOr<RegionBuilder> Anonymous(const std::string& tier, std::uint64_t bytes,
                                                 std::optional<int> node);
  /// A device's or file's memory that was mapped with mmap(2), and is unmapped with the
  /// region; `where` as Whereabouts::device.
  static RegionBuilder OfMapping(std::span<std::byte> mapping, std::size_t bytes, std::string where,
                                 std::optional<int> node);

  /// Not owned: must stay mapped while the region lives.
  static Region InPlace(std::span<const std::byte> bytes);
  /// The first `bytes` bytes of a file that the region keeps mapped.
  static Region OfFile(MappedFile file, std::size_t bytes);

  static void Emulate(Region& region, std::shared_ptr<EmulatedBus> bus);
  /// Of a block tier's region, to be wrapped.
  static std::shared_ptr<const BlockSource>& Blocks(Region& region);

  /// Copies `source` into the region on a few threads, past the caches. Errors: DATA_LOSS
  /// when what was copied has another checksum.
  absl::Status Fill(const PlacementSource& source, Progress& progress);
  /// What was not sealed yet; nullptr where there are no bytes.
  std::byte* data() { return const_cast<std::byte*>(region_.data()); }
  /// mlock; where that is refused, the region says so in its warning and serves unlocked.
  /// Pages of the pool need none.
  void Lock(const std::string& tier);
  /// Makes the bytes read-only and gives the region away.
  absl::StatusOr<Region> Seal() &&;

 private:
  bool TakeHugePages(std::optional<int> node);

  Region region_;
  bool pool_pages_ = false;
};

}  // namespace hmann
