#include "datasets/toolbox/norm_spread.h"

#include <cmath>
#include <cstring>

#include "hmann/distance.h"
#include "index/base/errors.h"
#include "index/base/random.h"

namespace hmann {
namespace {

/// Separates this stream of a seed from those of other uses.
constexpr std::uint64_t kStream = 0x6e6f726d;
constexpr double kMostSigma = 10;

}  // namespace

double RandomNormal(std::uint64_t stream, std::uint64_t counter) {
  double sum = -2;
  for (std::uint64_t j = 0; j < 4; ++j) sum += RandomUnit(stream, 4 * counter + j);
  return sum * 1.7320508075688772;
}

absl::StatusOr<NormSpread> NormSpread::Make(double sigma, std::uint64_t seed,
                                            const std::string& path, DType dtype) {
  if (!(sigma >= 0 && sigma <= kMostSigma)) {
    return InvalidArgument("norm-sigma: ", sigma, " found, 0 to ", kMostSigma, " expected");
  }
  if (sigma > 0 && dtype != DType::kF32) {
    return InvalidArgument(path, ": a suffix of f32 expected with norm-sigma, ",
                           std::string(Name(dtype)), " found");
  }
  return NormSpread(sigma, Random(seed, kStream));
}

void NormSpread::Apply(std::uint64_t i, std::uint32_t dim, std::byte* row) const {
  if (sigma_ == 0) return;
  const auto factor = static_cast<float>(std::exp(sigma_ * RandomNormal(stream_, i)));
  for (std::uint32_t c = 0; c < dim; ++c) {
    float component;
    std::memcpy(&component, row + c * sizeof(float), sizeof(float));
    component *= factor;
    std::memcpy(row + c * sizeof(float), &component, sizeof(float));
  }
}

}  // namespace hmann
