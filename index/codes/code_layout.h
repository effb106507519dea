#pragma once

#include <cstddef>

/// The bit layout of a code. No function here may emit code into a file compiled for one
/// instruction set: constants and always-inlined functions only.
///
///     code   [ factors: 4 bytes | code: bits x D / 8 bytes ]
///
/// D is the padded dimension, a multiple of 8. Component i of a code of b bits is a level
/// u_i in 0 .. 2^b - 1 that stands for x_i = u_i - (2^b - 1) / 2. The levels lie in
/// blocks of 128 dimensions (16 b bytes); the last block may have fewer. A block of n
/// dimensions has n b / 8 bytes. Byte k holds dimensions k, k + n b / 8, k + 2 n b / 8,
/// ..., from the lowest bits up, so unpacking is a shift and a mask. The query has a
/// matching layout with one signed byte per dimension: see LayOutQuery.
namespace hmann {

constexpr std::size_t kFactorBytes = 4;
constexpr std::size_t kBlockDims = 128;

/// Supported bits per dimension.
constexpr unsigned kCodeBits[] = {1, 2, 4};
__attribute__((always_inline)) constexpr bool IsCodeBits(unsigned bits) {
  return bits == 1 || bits == 2 || bits == 4;
}

/// Bytes of a code or block of `dim` dimensions.
__attribute__((always_inline)) constexpr std::size_t LevelBytes(std::size_t dim, unsigned bits) {
  return dim * bits / 8;
}

}  // namespace hmann
