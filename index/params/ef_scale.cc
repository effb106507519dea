#include "index/params/ef_scale.h"

#include <algorithm>
#include <cmath>

namespace hmann {
namespace {

/// A larger epsilon would include nearly everything.
constexpr float kMostEpsilon = 4;

std::uint32_t Scaled(std::uint32_t width, double by) {
  return static_cast<std::uint32_t>(
      std::clamp(std::round(by * static_cast<double>(width)), 1.0, static_cast<double>(kMaxEf)));
}

std::uint32_t AtMost(std::uint32_t width, std::uint64_t most) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(width, most));
}

/// Scales the end of a search that follows links.
void ScaleEnd(double ef_scale, ResolvedParams& params) {
  if (!params.epsilon.has_value()) {
    params.ef_l0 = Scaled(params.ef_l0, ef_scale);
    return;
  }
  params.epsilon = std::min(kMostEpsilon, static_cast<float>(ef_scale) * *params.epsilon);
  // If distances are alike, epsilon ends nothing and the width must. At first a wider one
  // is for the hardest queries: 5 is a guess.
  params.ef_l0 = Scaled(params.ef_l0, std::max({1.0, ef_scale, ef_scale * ef_scale / 5}));
}

void ScaleCells(double ef_scale, ResolvedParams& params) {
  params.nprobe = Scaled(params.nprobe, std::sqrt(ef_scale));
  params.ef_l1 = Scaled(params.ef_l1, std::sqrt(ef_scale));
  if (params.ef_l0 > 0) params.ef_l0 = Scaled(params.ef_l0, ef_scale);
  if (params.error_bound.has_value())
    *params.error_bound *= static_cast<float>(std::pow(ef_scale, 0.25));
}

}  // namespace

float DefaultEpsilon(std::uint32_t k) { return 0.45f * std::pow(static_cast<float>(k), -0.4f); }

ResolvedParams WithEfScale(const ResolvedParams& params, double ef_scale, std::uint64_t n,
                           std::uint64_t n1) {
  ResolvedParams scaled = params;
  if (params.mode == SearchMode::kScan) return scaled;
  if (params.mode == SearchMode::kMultiStart || params.mode == SearchMode::kUpper) {
    scaled.ef_l1 = Scaled(params.ef_l1, ef_scale);
    if (params.mode == SearchMode::kUpper) scaled.ef_l1 = std::max(scaled.ef_l1, params.k);
  } else if (params.nprobe > 0) {
    ScaleCells(ef_scale, scaled);
  } else {
    ScaleEnd(ef_scale, scaled);
  }
  if (scaled.ef_l0 > 0 && scaled.mode != SearchMode::kMultiStart)
    scaled.ef_l0 = std::max(scaled.ef_l0, params.k);
  scaled.ef_l0 = AtMost(scaled.ef_l0, n);
  if (n1 > 0) scaled.ef_l1 = AtMost(scaled.ef_l1, n1);
  scaled.nprobe = AtMost(scaled.nprobe, n1);
  return scaled;
}

}  // namespace hmann
