#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/search/executor.h"

namespace hmann {

/// The id of the vector with this label, the lowest if several share it; kNoNode: there
/// is none. Errors: see Index::Find.
absl::StatusOr<NodeId> FindId(const PlacedIndex& index, std::uint64_t label);

/// Reads vectors by their labels, in the order of `labels`, into `vectors`: dim
/// components of the index's dtype each. It looks them up side by side, so that their
/// reads of slow memory overlap. Errors: see Searcher::Get.
absl::Status GetVectors(const PlacedIndex& index, Executor& executor,
                        std::span<const std::uint64_t> labels, std::byte* vectors,
                        Counters* counters, const SearchLimits& limits);

}  // namespace hmann
