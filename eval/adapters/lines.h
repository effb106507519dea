/// The number of cache lines that a query needs, as a counter next to distances.
#pragma once

#include <cstdint>

namespace hmann::eval {

/// Sizes of the objects that a query touches, in bytes.
struct TouchedBytes {
  std::uint32_t row = 0, links = 0, code = 0;  ///< a vector; a list in L0 or L1; a code
};

/// How often a query touched them, as a mean or a sum.
struct TouchedTimes {
  double distances = 0, lists = 0, codes = 0;
};

/// Cache lines of 64 bytes, computed rather than counted. They follow from distances
/// (rows), expanded nodes (lists of links) and estimates (codes, by their bytes, since
/// they may share lines). Hits in the CPU's caches are not subtracted.
inline double LinesOf(const TouchedTimes& times, const TouchedBytes& bytes) {
  const auto lines = [](std::uint32_t of) {
    const std::uint32_t whole = (of + 63) / 64;
    return static_cast<double>(whole);
  };
  return times.distances * lines(bytes.row) + times.lists * lines(bytes.links) +
         times.codes * bytes.code / 64;
}

}  // namespace hmann::eval
