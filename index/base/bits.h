#pragma once

#include <cstdint>

namespace hmann {

/// The number of bits that are set. std::popcount is a call to a table where only the
/// base instruction set is assumed.
constexpr std::uint32_t CountBits(std::uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<std::uint32_t>(bits * 0x0101010101010101u >> 56);
}

}  // namespace hmann
