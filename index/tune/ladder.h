#pragma once

#include <cstdint>
#include <vector>

#include "hmann/dials.h"
#include "hmann/search_options.h"

namespace hmann {

/// Ways of searching an index that may be the fastest somewhere, as dials of effort 1
/// (WithEffort brings each of them to a recall): of each walk that the index can run, a
/// few that differ in the other dials. Those of the upper layers alone, ef_l0 = 0 in the
/// paper, are the first where there are any.
std::vector<Dials> WaysToSearch(std::uint32_t k, const SearchContext& context,
                                std::uint32_t most_query_threads);

/// Ways next to `way`: one dial that effort does not decide is a step up or down. Effort
/// 1 of each.
std::vector<Dials> NextTo(const Dials& way, const SearchContext& context);

}  // namespace hmann
