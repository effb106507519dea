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

/// A cache for L0 where `index` has placed it: of records (by node) on an addressable
/// tier, of blocks on a block tier. Errors: those of BlockCache::Make.
absl::StatusOr<std::unique_ptr<BlockCache>> MakeRecordCache(const PlacedIndex& index,
                                                            std::uint64_t bytes,
                                                            CachePolicy policy);

/// Fills a cache with the records (blocks) to whose nodes most links lead: walks meet a
/// node about as often as its in-degree says. `l0`: the section, as the index file has
/// it; read once from end to end. Errors: DATA_LOSS.
absl::Status FillByDegree(const PlacedIndex& index, std::span<const std::byte> l0,
                          BlockCache& cache, Progress& progress);

}  // namespace hmann
