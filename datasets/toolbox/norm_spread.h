#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/types.h"

namespace hmann {

/// Nearly normal (variance 1, within 3.5): a sum of four uniforms, so that it needs no
/// libm and is the same everywhere.
double RandomNormal(std::uint64_t stream, std::uint64_t counter);

/// Made-up norms: vector i is multiplied by e^(sigma x), x drawn from a normal law by
/// (seed, i). What inner product makes hard, on vectors of any kind.
class NormSpread {
 public:
  /// Sigma 0 leaves vectors as they are. Errors: INVALID_ARGUMENT for a sigma outside [0,
  /// 10], or above 0 for a file of another type than f32.
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
