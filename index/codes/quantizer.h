#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/codes/code_layout.h"

namespace hmann {

/// The result of quantizing a unit vector o.
struct Quantization {
  float dot;           ///< <o, x>: positive
  float squared_norm;  ///< |x|^2
};

/// Quantizes `unit` (dim components, dim a multiple of 8; length 1) to `bits` (one of
/// kCodeBits) a component: x_i = sign(o_i) (m_i + 1/2), m_i = min(floor(t |o_i|),
/// 2^(bits-1) - 1), with the t that maximizes cos = <o, x> / |x| (Gao et al., SIGMOD
/// 2025). They sweep all t at which a component changes. We try a grid of t around the
/// best one for a normal distribution, then a finer grid around the best of these.
/// quantizer_test states what that loses. Writes levels[i] = x_i + (2^bits - 1) / 2.
/// `magnitudes`: dim floats of scratch. Deterministic: the same bits on every CPU.
Quantization Quantize(const float* unit, std::size_t dim, unsigned bits, float* magnitudes,
                      std::uint8_t* levels);

/// Statistics of the codes of random directions.
struct CodeSize {
  float norm;    ///< |x|
  float across;  ///< standard deviation of <u, x> for a random unit vector u at right
                 ///< angles to o, plus 3 %: |x| sin / sqrt(dim - 1)
};
/// Measured by quantizing random directions, always the same ones. One vector's |x| sin
/// is within about 7 % of it at 128-d, 4 % at 784-d.
CodeSize MeasureCodes(std::size_t dim, unsigned bits);

/// <vector, x> for the x of `levels`.
float DotWithLevels(const float* vector, const std::uint8_t* levels, std::size_t dim,
                    unsigned bits);

/// Writes the code, bits * dim / 8 bytes, in the layout of code_layout.h.
void PackLevels(const std::uint8_t* levels, std::size_t dim, unsigned bits, std::byte* code);

/// The quantized query for the kernels: 128 signed bytes for each block of a code. In a
/// block of n dimensions, each field of a byte has 16 bits components of the query. The
/// first n bits / 8 of them are dimensions and the rest are zeros.
struct alignas(64) QueryBlock {
  std::int8_t components[kBlockDims];
};
void LayOutQuery(const std::int8_t* components, std::size_t dim, unsigned bits,
                 std::vector<QueryBlock>& blocks);

}  // namespace hmann
