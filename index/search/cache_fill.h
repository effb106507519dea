#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "hmann/progress.h"
#include "index/search/placed_index.h"
#include "index/tiers/block_cache.h"

namespace hmann {

/// Makes a cache for L0 as `index` has placed it: of records (by node) on an addressable
/// tier, of blocks on a block tier. Errors: those of BlockCache::Make.
absl::StatusOr<std::unique_ptr<BlockCache>> MakeRecordCache(const PlacedIndex& index,
                                                            std::uint64_t bytes,
                                                            CachePolicy policy);

/// Fills a cache with the records (blocks) of the nodes with the highest in-degree,
/// because a node's in-degree predicts how often traversals meet it. `l0`: the section as
/// in the index file; read once from end to end. Errors: DATA_LOSS.
absl::Status FillByDegree(const PlacedIndex& index, std::span<const std::byte> l0,
                          BlockCache& cache, Progress& progress);

}  // namespace hmann
