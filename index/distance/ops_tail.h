#pragma once

#include <cstddef>
#include <cstdint>

/// Short loads for instruction sets without byte masks.
namespace hmann {
namespace {

struct Bytes16 {
  std::uint64_t low;
  std::uint64_t high;
};

template <class Word>
__attribute__((always_inline)) inline Word LoadWord(const unsigned char* p) {
  Word word;
  __builtin_memcpy(&word, p, sizeof(word));
  return word;
}

/// The n bytes at `p`, 0 < n < 8, then zeros. Overlapping words agree where they overlap.
/// Nothing outside is read.
__attribute__((always_inline)) inline std::uint64_t LoadBelow8(const unsigned char* p,
                                                               std::size_t n) {
  if (n >= 4)
    return LoadWord<std::uint32_t>(p) | std::uint64_t{LoadWord<std::uint32_t>(p + n - 4)}
                                            << (8 * (n - 4));
  return p[0] | std::uint64_t{p[n / 2]} << (8 * (n / 2)) | std::uint64_t{p[n - 1]} << (8 * (n - 1));
}

/// The n bytes at `p`, 0 < n < 16, then zeros.
__attribute__((always_inline)) inline Bytes16 LoadBelow16(const void* bytes, std::size_t n) {
  const auto* p = static_cast<const unsigned char*>(bytes);
  if (n < 8) return {LoadBelow8(p, n), 0};
  if (n == 8) return {LoadWord<std::uint64_t>(p), 0};
  return {LoadWord<std::uint64_t>(p), LoadWord<std::uint64_t>(p + n - 8) >> (8 * (16 - n))};
}

}  // namespace
}  // namespace hmann
