#pragma once

#include <cstdint>
#include <vector>

#include "index/dials/dials.h"
#include "index/dials/options.h"
#include "index/tune/surface.h"

namespace hmann {

/// What a grid of settings is for.
struct DialGridOptions {
  std::uint32_t k = 10;
  SearchContext context;
  std::uint32_t most_query_threads = 1;  ///< for `multi-start`: 1, 2, 4, ... up to this
};

/// Settings of all dials that are worth a look on such an index: every walk that it can
/// run, each dial in geometric steps (the one that recall hangs on in steps of 1.25 or
/// 1.5), and where L0 is far every third of them with the other ways of prefetching.
/// Distinct, in a fixed order; about 1,800 on an index with codes in DRAM.
std::vector<Dials> DialGrid(const DialGridOptions& options);

/// Settings of one family differ by degrees: their work and recall lie on one smooth
/// surface. 0 to kDialFamilies - 1.
constexpr std::size_t kDialFamilies = 9;
std::size_t DialFamily(const Dials& dials);

/// Of queries with several threads: what they take hangs on how soon the kernel wakes
/// threads, which is now one time and now three; their work foretells it badly.
constexpr std::size_t kThreadedFamily = 6;

/// A setting as a point of its family: the logarithms (base 2) of its dials,
/// `error_bound` in half units. Without query_threads and prefetch, which change the time
/// alone.
Surface::Point DialPoint(const Dials& dials);

/// `most` settings of the family that cover it: each the farthest from those before it,
/// beginning with the one nearest to the middle. Indices into `grid`.
std::vector<std::size_t> CoverFamily(const std::vector<Dials>& grid, std::size_t family,
                                     std::size_t most);

}  // namespace hmann
