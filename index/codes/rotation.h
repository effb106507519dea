#pragma once

#include <cstdint>
#include <vector>

namespace hmann {

/// A seeded random orthogonal transform in O(D log D), where D is dim rounded up to a
/// multiple of 8. A vector is padded with zeros.
///
/// It does three rounds of random signs and a Hadamard transform (Ailon & Chazelle 2006;
/// three rounds as in Yu et al. 2016). Where D is not a power of two, a round transforms
/// the first P and then the last P coordinates, P the largest power of two below D. The
/// round ends with a butterfly between the two halves, so that a narrow overlap does not
/// keep them apart. Lengths and inner products are preserved up to f32 rounding. Each
/// output has the same bits on every CPU: every operation is one rounded addition or
/// multiplication of two elements, in a fixed order (compiled without contraction). A
/// value; immutable; thread-safe.
class Rotation {
 public:
  /// `dim`: at least 1.
  Rotation(std::uint32_t dim, std::uint64_t seed);

  std::uint32_t padded_dim() const { return padded_dim_; }

  /// `vector`: padded_dim() floats, replaced by their image.
  void Apply(float* vector) const;

 private:
  std::uint32_t padded_dim_;
  std::uint32_t segment_;  ///< P
  std::vector<float>
      factors_;  ///< padded_dim() signs per transform; in its segment times 1 / sqrt(P)
};

}  // namespace hmann
