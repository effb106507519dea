#include "index/params/ef_scale.h"

#include <algorithm>
#include <cmath>

namespace hmann {
namespace {

/// A larger epsilon would include nearly everything.
constexpr float kMostEpsilon = 4;
/// epsilon reaches its least value at kLeastScale / kHalvings: a guess.
constexpr double kHalvings = 32;

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
  // Below kLeastScale, where it is nearly 0, each halving takes more from it.
  const double share = std::max(0.0, std::log2(kLeastScale / ef_scale) / std::log2(kHalvings)),
               below = EpsilonLine::kLeast * share * share;
  params.epsilon = std::clamp(static_cast<float>(ef_scale * *params.epsilon + below),
                              EpsilonLine::kLeast, kMostEpsilon);
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

double LeastEfScale(const ResolvedParams& at_one) {
  return at_one.epsilon.has_value() && at_one.nprobe == 0 ? kLeastScale / kHalvings : kLeastScale;
}

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
  // From cells, k candidates are read in any case (CellEffort), more where a query is
  // harder: half of k is a guess.
  const std::uint32_t least = scaled.nprobe > 0 ? (params.k + 1) / 2 : params.k;
  if (scaled.ef_l0 > 0 && scaled.mode != SearchMode::kMultiStart)
    scaled.ef_l0 = std::max(scaled.ef_l0, least);
  scaled.ef_l0 = AtMost(scaled.ef_l0, n);
  if (n1 > 0) scaled.ef_l1 = AtMost(scaled.ef_l1, n1);
  scaled.nprobe = AtMost(scaled.nprobe, n1);
  return scaled;
}

}  // namespace hmann
