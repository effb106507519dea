#include "index/dials/effort.h"

#include <algorithm>
#include <cmath>

namespace hmann {
namespace {

/// Beyond, nearly everything is within it.
constexpr float kMostEpsilon = 4;

std::uint32_t Scaled(std::uint32_t width, double by) {
  return static_cast<std::uint32_t>(
      std::clamp(std::round(by * static_cast<double>(width)), 1.0, static_cast<double>(kMaxEf)));
}

std::uint32_t AtMost(std::uint32_t width, std::uint64_t most) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(width, most));
}

/// Of a search that links lead.
void ScaleEnd(double effort, Dials& dials) {
  if (!dials.epsilon.has_value()) {
    dials.ef_l0 = Scaled(dials.ef_l0, effort);
    return;
  }
  dials.epsilon = std::min(kMostEpsilon, static_cast<float>(effort) * *dials.epsilon);
  // Where distances are alike, epsilon ends nothing, and the width has to.
  const double more = std::max(1.0, effort);
  dials.ef_l0 = Scaled(dials.ef_l0, more * more);
}

void ScaleCells(double effort, Dials& dials) {
  dials.nprobe = Scaled(dials.nprobe, std::sqrt(effort));
  dials.ef_l1 = Scaled(dials.ef_l1, std::sqrt(effort));
  if (dials.ef_l0 > 0) dials.ef_l0 = Scaled(dials.ef_l0, effort);
  if (dials.error_bound.has_value())
    *dials.error_bound *= static_cast<float>(std::pow(effort, 0.25));
}

}  // namespace

float DefaultEpsilon(std::uint32_t k) { return 0.45f * std::pow(static_cast<float>(k), -0.4f); }

Dials WithEffort(const Dials& dials, double effort, std::uint64_t n, std::uint64_t n1) {
  Dials scaled = dials;
  if (dials.walk == WalkKind::kMultiStart || dials.walk == WalkKind::kUpper) {
    scaled.ef_l1 = Scaled(dials.ef_l1, effort);
    if (dials.walk == WalkKind::kUpper) scaled.ef_l1 = std::max(scaled.ef_l1, dials.k);
  } else if (dials.nprobe > 0) {
    ScaleCells(effort, scaled);
  } else {
    ScaleEnd(effort, scaled);
  }
  if (scaled.ef_l0 > 0 && scaled.walk != WalkKind::kMultiStart)
    scaled.ef_l0 = std::max(scaled.ef_l0, dials.k);
  scaled.ef_l0 = AtMost(scaled.ef_l0, n);
  if (n1 > 0) scaled.ef_l1 = AtMost(scaled.ef_l1, n1);
  scaled.nprobe = AtMost(scaled.nprobe, n1);
  return scaled;
}

}  // namespace hmann
