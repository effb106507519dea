#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/progress.h"

namespace hmann {

/// How numbers are spread: their mean and quantiles, of which the last is the largest.
struct Spread {
  static constexpr std::array<double, 6> kShares = {0.01, 0.1, 0.5, 0.9, 0.99, 1};
  std::uint64_t count = 0;
  double mean = 0;
  std::array<std::uint64_t, kShares.size()> quantiles{};  ///< nearest rank; 0 of nothing
};
Spread SpreadOf(std::vector<std::uint32_t> values);

/// Hubs and cells of an index.
struct GraphSpread {
  Spread links_in;   ///< links of L0 that lead to a node
  Spread links_out;  ///< links of L0 that a node has
  Spread cells;      ///< members of a promoted node's cell, empty ones included; none without codes
};

/// Reads all links of L0; takes 8 bytes of memory a node. Errors: as IndexFile::Open;
/// DATA_LOSS for a link to a node that is not there.
absl::StatusOr<GraphSpread> MeasureSpread(const std::string& path, Progress& progress);

}  // namespace hmann
