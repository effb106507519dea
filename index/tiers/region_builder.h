#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "index/base/file.h"
#include "index/base/progress.h"
#include "index/tiers/tier.h"

namespace hmann {

/// How tiers make regions: a mapping of our own, filled, then sealed; or bytes that somebody else keeps mapped.
class RegionBuilder {
 public:
  /// Zeroed anonymous memory between two inaccessible guards (so that smaps speaks of this region alone), aligned to and advised for 2 MiB
  /// pages when it is that large. With `node`, its pages may come from that NUMA node only.
  /// Errors: RESOURCE_EXHAUSTED; those of mbind(2).
  static absl::StatusOr<RegionBuilder> Anonymous(const std::string& tier, std::uint64_t bytes, std::optional<int> node);
  /// Not owned: must stay mapped while the region lives.
  static Region InPlace(std::span<const std::byte> bytes);
  /// The first `bytes` bytes of a file that the region keeps mapped.
  static Region OfFile(MappedFile file, std::size_t bytes);

  /// Copies `source` into the region on a few threads.
  void Fill(std::span<const std::byte> source, Progress& progress);
  /// mlock; where that is refused, the region says so in its warning and serves unlocked.
  void Lock(const std::string& tier);
  /// Makes the bytes read-only and gives the region away.
  absl::StatusOr<Region> Seal() &&;

 private:
  Region region_;
};

}  // namespace hmann
