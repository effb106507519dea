#include "index/dials/calibration.h"

#include <algorithm>
#include <cmath>

namespace hmann {
namespace {

double Logit(double recall) {
  const double inside = std::clamp(recall, 1e-6, 1 - 1e-6);
  return std::log(inside / (1 - inside));
}

/// At `share` of the way from a to b.
float Between(float a, float b, double share) {
  return static_cast<float>(
      std::exp(std::log(double{a}) + share * (std::log(double{b}) - std::log(double{a}))));
}

Calibration::Found On(const Calibration::Curve& curve, double recall) {
  const auto reaches = [&](const Calibration::Point& point) { return point.recall >= recall; };
  const auto above = std::find_if(curve.points.begin(), curve.points.end(), reaches);
  if (above == curve.points.end()) return {curve.points.back().effort, curve.points.back().recall};
  if (above == curve.points.begin()) return {above->effort, above->recall};
  const auto below = above - 1;
  const double share =
      (Logit(recall) - Logit(below->recall)) / (Logit(above->recall) - Logit(below->recall));
  return {Between(below->effort, above->effort, share), recall};
}

}  // namespace

std::optional<Calibration::Found> Calibration::Find(WalkKind walk, bool cells, std::uint32_t k,
                                                    double recall) const {
  const Curve *below = nullptr, *above = nullptr;
  for (const Curve& curve : curves) {
    if (curve.walk != walk || curve.cells != cells) continue;
    if (curve.k <= k) below = &curve;
    if (curve.k >= k && above == nullptr) above = &curve;
  }
  if (below == nullptr && above == nullptr) return std::nullopt;
  if (below == nullptr || above == nullptr) return On(*(below == nullptr ? above : below), recall);
  const Found low = On(*below, recall), high = On(*above, recall);
  if (below == above) return low;
  const auto from_below = [&](std::uint32_t to) {
    return std::log(static_cast<double>(to)) - std::log(static_cast<double>(below->k));
  };
  const double share = from_below(k) / from_below(above->k);
  return Found{Between(low.effort, high.effort, share), std::min(low.recall, high.recall)};
}

}  // namespace hmann
