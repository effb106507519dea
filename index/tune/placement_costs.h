#pragma once

#include <cmath>
#include <string>

#include "absl/status/statusor.h"
#include "index/tune/profile.h"

namespace hmann {

/// Loads of a batch of fast memory that are under way at once.
constexpr double kFastLoads = 16;

/// Cache lines.
inline double Lines(double bytes) { return std::ceil(bytes / 64); }

/// A tier by its figures.
struct TierCost {
  std::string name;
  MemoryProfile memory;
  BlockProfile block;
  bool is_block = false;

  /// ns until `records` (at least 1) of `lines` cache lines each have come that one
  /// thread asks for together; on a block tier, a block each.
  double BatchNs(double records, double lines) const;
};

/// Of the profile. `emulated:...` follows from dram and its settings, measured or not;
/// every nvme is like the one that was. Errors: INVALID_ARGUMENT naming the tiers that
/// the profile knows.
absl::StatusOr<TierCost> CostOf(const DeviceProfile& profile, const std::string& tier);

}  // namespace hmann
