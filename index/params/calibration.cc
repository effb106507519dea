#include "hmann/calibration.h"

#include <algorithm>
#include <cmath>

#include "index/base/statistics.h"
#include "index/params/ef_scale.h"

namespace hmann {
namespace {

/// Geometric interpolation: `share` of the way from a to b. 0 if either is unknown (0).
template <class T>
T Between(T a, T b, double share) {
  if (a == 0 || b == 0) return 0;
  return static_cast<T>(
      std::exp(std::log(double{a}) + share * (std::log(double{b}) - std::log(double{a}))));
}

Calibration::Found On(const Calibration::Curve& curve, double recall) {
  const auto reaches = [&](const Calibration::Point& point) { return point.recall >= recall; };
  const auto above = std::find_if(curve.points.begin(), curve.points.end(), reaches);
  if (above == curve.points.end() || above == curve.points.begin()) {
    const Calibration::Point& point = above == curve.points.end() ? curve.points.back() : *above;
    return {point.ef_scale, point.recall, point.distances};
  }
  const auto below = above - 1;
  // A step that no setting divides, as near epsilon 0. The ratio is a guess.
  constexpr float kAsClose = 1.02f;
  if (above->ef_scale < kAsClose * below->ef_scale)
    return {above->ef_scale, above->recall, above->distances};
  const double share =
      (Logit(recall) - Logit(below->recall)) / (Logit(above->recall) - Logit(below->recall));
  return {Between(below->ef_scale, above->ef_scale, share), recall,
          Between(below->distances, above->distances, share)};
}

}  // namespace

std::string KindOfQueries(const std::string& origin) {
  if (origin == kLeftOutInTurn || origin == kOfTheIndex || origin == kComparedWithAll)
    return "vectors like the index";
  return "queries like " + origin.substr(origin.rfind('/') + 1);
}

std::optional<Calibration::Found> Calibration::Find(const Way& way, std::uint32_t k,
                                                    double recall) const {
  const Curve *below = nullptr, *above = nullptr;
  for (const Curve& curve : curves) {
    if (curve.way != way) continue;
    if (curve.k <= k) below = &curve;
    if (curve.k >= k && above == nullptr) above = &curve;
  }
  if (below == nullptr && above == nullptr) return std::nullopt;
  if (below == nullptr || above == nullptr) {
    Found found = On(*(below == nullptr ? above : below), recall);
    found.measured = above != nullptr;
    return found;
  }
  const Found low = On(*below, recall), high = On(*above, recall);
  if (below == above) return low;
  const auto from_below = [&](std::uint32_t to) {
    return std::log(static_cast<double>(to)) - std::log(static_cast<double>(below->k));
  };
  const double share = from_below(k) / from_below(above->k);
  float ef_scale = Between(low.ef_scale, high.ef_scale, share);
  if (way.mode == SearchMode::kGraph || (way.mode == SearchMode::kQuantized && !way.cells)) {
    const auto epsilon = [](const Found& found, std::uint32_t of) {
      return double{found.ef_scale} * double{DefaultEpsilon(of)};
    };
    const double between = std::lerp(epsilon(low, below->k), epsilon(high, above->k), share);
    ef_scale = static_cast<float>(between / double{DefaultEpsilon(k)});
  }
  return Found{ef_scale, std::min(low.recall, high.recall),
               Between(low.distances, high.distances, share)};
}

Calibration::Difficulty Calibration::DifficultyAt(std::uint32_t k) const {
  if (difficulties.empty()) return {.k = k};
  const auto above = std::find_if(difficulties.begin(), difficulties.end(),
                                  [k](const Difficulty& measured) { return measured.k >= k; });
  if (above == difficulties.begin()) return *above;
  if (above == difficulties.end()) return difficulties.back();
  const Difficulty &low = above[-1], &high = *above;
  const float share = std::log(static_cast<float>(k) / static_cast<float>(low.k)) /
                      std::log(static_cast<float>(high.k) / static_cast<float>(low.k));
  return {k, std::lerp(low.typical, high.typical, share), std::lerp(low.rise, high.rise, share)};
}

bool Calibration::UpperIsEnough(const Way& way, std::uint32_t k, double recall) const {
  const std::optional<Found> upper =
      Find({.mode = SearchMode::kUpper, .scalar_bits = way.scalar_bits}, k, recall);
  if (!upper.has_value() || !upper->measured || upper->recall < recall) return false;
  const std::optional<Found> other = Find(way, k, recall);
  if (!other.has_value() || other->recall < recall) return true;
  return upper->distances > 0 && upper->distances <= other->distances;
}

}  // namespace hmann
