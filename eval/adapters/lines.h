/// Cache lines that a query needs, as a counter beside distances.
#pragma once

#include <cstdint>

namespace hmann::eval {

/// Bytes of what a query touches.
struct TouchedBytes {
  std::uint32_t row = 0, links = 0, code = 0;  ///< a vector; a list in L0 or L1; a code
};

/// What a query did, a mean or a sum.
struct TouchedTimes {
  double distances = 0, lists = 0, codes = 0;
};

/// Cache lines of 64 bytes: nobody counts lines, they follow from distances (rows), nodes
/// expanded (lists of links) and estimates (codes, which may share lines: their bytes).
/// What the CPU's caches have is not taken off.
inline double LinesOf(const TouchedTimes& times, const TouchedBytes& bytes) {
  const auto lines = [](std::uint32_t of) {
    const std::uint32_t whole = (of + 63) / 64;
    return static_cast<double>(whole);
  };
  return times.distances * lines(bytes.row) + times.lists * lines(bytes.links) +
         times.codes * bytes.code / 64;
}

}  // namespace hmann::eval
