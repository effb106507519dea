#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/types.h"

namespace hmann {

/// A nearly normal number (variance 1, within 3.5): a sum of four uniforms, which needs
/// no libm and is the same everywhere.
double RandomNormal(std::uint64_t stream, std::uint64_t counter);

/// Synthetic norms: vector i is multiplied by e^(sigma x), with x drawn from a normal law
/// by (seed, i). This reproduces what makes inner product hard, on vectors of any kind.
class NormSpread {
 public:
  /// Sigma 0 leaves vectors as they are. Errors: INVALID_ARGUMENT for a sigma outside [0,
  /// 10], or for one above 0 and a file of another type than f32.
  static absl::StatusOr<NormSpread> Make(double sigma, std::uint64_t seed, const std::string& path,
                                         DType dtype);
  /// `row`: dim components, unaligned.
  void Apply(std::uint64_t i, std::uint32_t dim, std::byte* row) const;

 private:
  NormSpread(double sigma, std::uint64_t stream) : sigma_(sigma), stream_(stream) {}

  double sigma_;
  std::uint64_t stream_;
};

}  // namespace hmann
