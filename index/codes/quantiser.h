#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/codes/code_layout.h"

namespace hmann {

/// What became of a unit vector o.
struct Quantisation {
  float dot;           ///< <o, x>: positive
  float squared_norm;  ///< |x|^2
};

/// Quantises `unit` (dim components, dim a multiple of 8; length 1) to `bits` (of
/// kCodeBits) a component: x_i = sign(o_i) (m_i + 1/2), m_i = min(floor(t |o_i|),
/// 2^(bits-1) - 1), with t so that cos = <o, x> / |x| is largest (Gao et al., SIGMOD
/// 2025). They sweep all t at which a component changes; we try a grid of t around the
/// best one for a normal distribution, and a finer one around the best of these: what
/// that loses stands in quantiser_test. Writes levels[i] = x_i + (2^bits - 1) / 2.
/// `magnitudes`: dim floats of scratch. Deterministic: the same bits on every CPU.
Quantisation Quantise(const float* unit, std::size_t dim, unsigned bits, float* magnitudes,
                      std::uint8_t* levels);

/// Codes of random directions.
struct CodeSize {
  float norm;    ///< |x|
  float across;  ///< standard deviation of <u, x> for a random unit vector u at right angles to o,
                 ///< and 3 % more: |x| sin / sqrt(dim - 1)
};
/// Measured by quantising random directions, always the same ones. One vector's |x| sin
/// is within some 7 % of it at 128-d, 4 % at 784-d.
CodeSize MeasureCodes(std::size_t dim, unsigned bits);

/// <vector, x> for the x of these levels.
float DotWithLevels(const float* vector, const std::uint8_t* levels, std::size_t dim,
                    unsigned bits);

/// Writes the code, bits * dim / 8 bytes, as code_layout.h has it.
void PackLevels(const std::uint8_t* levels, std::size_t dim, unsigned bits, std::byte* code);

/// The quantised query for the kernels: for each block of a code, 128 signed bytes. Those
/// of a block with n dimensions: for each field of a byte, 16 bits components of the
/// query of which the first n bits / 8 are dimensions and the rest are zeros.
struct alignas(64) QueryBlock {
  std::int8_t components[kBlockDims];
};
void LayOutQuery(const std::int8_t* components, std::size_t dim, unsigned bits,
                 std::vector<QueryBlock>& blocks);

}  // namespace hmann
