#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "index/construct/graph/packed_lists.h"
#include "index/construct/jobs/stages.h"
#include "index/format/reader.h"

namespace hmann {

/// Imports the links of L0 of a finished index, in the order of its ids, as a mapped
/// artifact. Errors: DATA_LOSS naming node and link for lists that break their rules;
/// those of Stages; CANCELLED.
absl::StatusOr<PackedLists> ImportLinks(const IndexFile& file, Stages& stages);

/// Returns the row of each id: its label, or the id itself where labels are the user's
/// own. Errors: DATA_LOSS for labels that are no permutation.
absl::StatusOr<std::vector<std::uint32_t>> RowsOfIds(const IndexFile& file);
/// User labels by id; empty where labels are row numbers.
std::vector<std::uint64_t> UserLabelsOf(const IndexFile& file);

}  // namespace hmann
