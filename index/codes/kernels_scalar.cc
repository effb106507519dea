#include <cstddef>
#include <cstdint>

namespace hmann {
namespace {

/// The operations of kernel_loop.h in plain C++: first the levels, then their products,
/// each in a loop that vectorizes for the baseline.
struct Ops {
  using Sum = std::int32_t;
  static constexpr std::size_t kDims = 128;
  static void Start(Sum& sum) { sum = 0; }
  static std::int32_t Dot(const std::uint8_t (&levels)[kDims], const std::int8_t* query) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < kDims; ++i)
      sum += static_cast<std::int16_t>(levels[i]) * static_cast<std::int16_t>(query[i]);
    return sum;
  }
  template <unsigned kWidth>
  static void Unpack(const std::uint8_t* code, std::size_t bytes, std::uint8_t (&levels)[kDims]) {
    for (std::size_t field = 0; field < 8 / kWidth; ++field) {
      std::uint8_t* of_field = levels + field * kWidth * 16;
      for (std::size_t k = 0; k < bytes; ++k)
        of_field[k] = static_cast<std::uint8_t>(code[k] >> (field * kWidth) & ((1 << kWidth) - 1));
    }
  }
  template <unsigned kWidth>
  static void AddTail(Sum (&sums)[4], const std::int8_t* query,
                      const std::uint8_t* const (&codes)[4], std::size_t bytes) {
    std::uint8_t levels[kDims] = {};
    for (std::size_t i = 0; i < 4; ++i) {
      Unpack<kWidth>(codes[i], bytes, levels);
      sums[i] += Dot(levels, query);
    }
  }
  template <unsigned kWidth>
  static void Add(Sum (&sums)[4], const std::int8_t* query, const std::uint8_t* const (&codes)[4]) {
    std::uint8_t levels[kDims];
    for (std::size_t i = 0; i < 4; ++i) {
      Unpack<kWidth>(codes[i], 16 * kWidth, levels);
      sums[i] += Dot(levels, query);
    }
  }
  static void AddSquaresTail(Sum (&sums)[4], const std::uint8_t* const (&codes)[4],
                             std::size_t bytes) {
    for (std::size_t i = 0; i < 4; ++i) {
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < bytes; ++k) {
        const std::int32_t low = codes[i][k] & 15, high = codes[i][k] >> 4;
        sum += low * low + high * high;
      }
      sums[i] += sum;
    }
  }
  static void AddSquares(Sum (&sums)[4], const std::uint8_t* const (&codes)[4]) {
    AddSquaresTail(sums, codes, 64);
  }
  static void Reduce(const Sum (&sums)[4], std::int32_t* dots) {
    for (std::size_t i = 0; i < 4; ++i) dots[i] = sums[i];
  }
};

}  // namespace
}  // namespace hmann

// clang-format off
#include "index/codes/kernel_loop.h"
// clang-format on

namespace hmann {

const CodeKernels* ScalarCodeKernels() { return &kTable; }

}  // namespace hmann
