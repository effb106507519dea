#pragma once

#include <cstddef>
#include <cstdint>

/// Where the bits of a code lie. No function here may emit code into a file compiled for one instruction set: constants and
/// always-inlined functions only.
///
///     sketch   [ factors: 4 bytes | code: bits x D / 8 bytes ]           D: padded dimension, a multiple of 8
///
/// Component i of a code is a level u_i in 0 .. 2^bits - 1 that stands for x_i = u_i - (2^bits - 1) / 2. A code has *parts*: one part of
/// width 1, 2 or 4 bits for 1, 2 or 4 bits; for 3 bits the highest bits (a part of width 1) and then the two lower ones (width 2).
/// A part of width w consists of blocks of 128 dimensions (16 w bytes); the last may have fewer. In a block of n dimensions, byte k of
/// its n w / 8 holds, from the lowest bits up, dimensions k, k + n w / 8, k + 2 n w / 8, ...: unpacking is a shift and a mask.
/// The query is laid out alike, one signed byte for each dimension: see LayOutQuery.
namespace hmann {

constexpr std::size_t kFactorBytes = 4;
constexpr std::size_t kBlockDims = 128;

/// Bytes of a part (or of a block) of `dim` dimensions.
__attribute__((always_inline)) constexpr std::size_t PartBytes(std::size_t dim, unsigned width) { return dim * width / 8; }

}  // namespace hmann
