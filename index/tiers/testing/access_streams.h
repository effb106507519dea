#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "index/base/random.h"

namespace hmann {

/// Streams of block numbers for tests and benchmarks of caches. Hotness is unrelated to
/// block number.
enum class AccessStream { kUniform, kZipf };

/// The long-run access frequency of each block. kZipf: the r-th hottest has probability
/// proportional to 1/r (alpha = 1).
inline std::vector<double> Frequencies(AccessStream stream, std::uint32_t blocks,
                                       std::uint64_t seed) {
  std::vector<double> frequency(blocks, 1.0 / blocks);
  if (stream == AccessStream::kUniform) return frequency;
  double sum = 0;
  for (std::uint32_t rank = 1; rank <= blocks; ++rank) sum += 1.0 / rank;
  const std::vector<std::uint32_t> by_heat = RandomPermutation(blocks, seed);
  for (std::uint32_t rank = 1; rank <= blocks; ++rank)
    frequency[by_heat[rank - 1]] = 1.0 / (rank * sum);
  return frequency;
}

inline std::vector<std::uint32_t> Accesses(const std::vector<double>& frequency, std::size_t length,
                                           std::uint64_t seed) {
  std::vector<double> upto(frequency.size());
  double sum = 0;
  for (std::size_t i = 0; i < frequency.size(); ++i) upto[i] = sum += frequency[i];
  std::vector<std::uint32_t> stream(length);
  for (std::size_t i = 0; i < length; ++i) {
    const auto at = std::upper_bound(upto.begin(), upto.end() - 1, RandomUnit(seed, i) * sum);
    stream[i] = static_cast<std::uint32_t>(at - upto.begin());
  }
  return stream;
}

/// The long-run hit rate of an LFU cache that knows the true frequencies: the sum over
/// the `held` hottest blocks.
inline double IdealLfuHitRate(std::vector<double> frequency, std::uint64_t held) {
  std::sort(frequency.rbegin(), frequency.rend());
  double sum = 0;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(held, frequency.size()); ++i)
    sum += frequency[i];
  return sum;
}

}  // namespace hmann
