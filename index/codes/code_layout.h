#pragma once

#include <cstddef>

/// Where the bits of a code lie. No function here may emit code into a file compiled for
/// one instruction set: constants and always-inlined functions only.
///
///     code   [ factors: 4 bytes | code: bits x D / 8 bytes ]
///
/// D is the padded dimension, a multiple of 8. Component i of a code of b bits is a level
/// u_i in 0 .. 2^b - 1 that stands for x_i = u_i - (2^b - 1) / 2. Its levels lie in
/// blocks of 128 dimensions (16 b bytes); the last may have fewer. In a block of n
/// dimensions, byte k of its n b / 8 holds, from the lowest bits up, dimensions k, k + n
/// b / 8, k + 2 n b / 8, ...: unpacking is a shift and a mask. The query is laid out
/// alike, one signed byte for each dimension: see LayOutQuery.
namespace hmann {

constexpr std::size_t kFactorBytes = 4;
constexpr std::size_t kBlockDims = 128;

/// Bits per dimension that a code may have.
constexpr unsigned kCodeBits[] = {1, 2, 4};
__attribute__((always_inline)) constexpr bool IsCodeBits(unsigned bits) {
  return bits == 1 || bits == 2 || bits == 4;
}

/// Bytes of a code (or of a block) of `dim` dimensions.
__attribute__((always_inline)) constexpr std::size_t LevelBytes(std::size_t dim, unsigned bits) {
  return dim * bits / 8;
}

}  // namespace hmann
