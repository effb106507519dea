#pragma once

#include <cstdint>
#include <vector>

#include "hmann/resolved_params.h"
#include "hmann/search_params.h"

namespace hmann {

/// Candidate settings that may be the fastest somewhere, as parameters of ef_scale 1
/// (WithEfScale brings each of them to a recall). For each mode that the index can run
/// there are a few, which differ in the other parameters. The first is that of a search
/// without parameters.
std::vector<ResolvedParams> WaysToSearch(std::uint32_t k, const SearchContext& context,
                                         std::uint32_t most_query_threads);

/// Settings next to `way`: one parameter that ef_scale does not decide moves a step up or
/// down. Each has ef_scale 1.
std::vector<ResolvedParams> NextTo(const ResolvedParams& way, const SearchContext& context);

}  // namespace hmann
