#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace hmann {

/// Counter-based random numbers: Random(seed, i) is the i-th number of the stream `seed`,
/// on any thread. SplitMix64's finalizer (Steele, Lea, Flood 2014) over the mixed pair.
constexpr std::uint64_t Random(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z =
      seed * 0x9e3779b97f4a7c15u + counter * 0xd1b54a32d192ed03u + 0x8cb92ba72f3d8dd7u;
  for (int round = 0; round < 2; ++round) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
  }
  return z;
}

/// Uniform in [0, bound) by multiplication (Lemire 2019, without the rejection: its bias
/// is below bound / 2^64).
constexpr std::uint64_t RandomBelow(std::uint64_t seed, std::uint64_t counter,
                                    std::uint64_t bound) {
  return static_cast<std::uint64_t>(
      (static_cast<unsigned __int128>(Random(seed, counter)) * bound) >> 64);
}

/// Uniform in [0, 1).
constexpr double RandomUnit(std::uint64_t seed, std::uint64_t counter) {
  return static_cast<double>(Random(seed, counter) >> 11) * 0x1.0p-53;
}

/// A seeded permutation of 0..n-1 (Fisher-Yates).
inline std::vector<std::uint32_t> RandomPermutation(std::uint32_t n, std::uint64_t seed) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  for (std::uint32_t i = n; i > 1; --i) std::swap(order[i - 1], order[RandomBelow(seed, i, i)]);
  return order;
}

}  // namespace hmann
