#include "index/search/cache_fill.h"

#include <algorithm>
#include <vector>

namespace hmann {
namespace {

bool ByBlock(const PlacedIndex& index) { return index.blocks != nullptr; }

std::uint64_t Units(const PlacedIndex& index) {
  return ByBlock(index) ? index.records.TotalBytes() / kBlockBytes : index.records.n;
}

std::uint32_t UnitBytes(const PlacedIndex& index) {
  return ByBlock(index) ? static_cast<std::uint32_t>(kBlockBytes) : index.MostRecordBytes();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockCache>> MakeRecordCache(const PlacedIndex& index,
                                                            std::uint64_t bytes,
                                                            CachePolicy policy) {
  return BlockCache::Make(Units(index), UnitBytes(index), bytes, policy);
}

absl::Status FillByDegree(const PlacedIndex& index, std::span<const std::byte> l0,
                          BlockCache& cache, Progress& progress) {
  const RecordLayout& records = index.records;
  const NodeId n = index.layers.n();
  std::vector<std::uint32_t> uses(Units(index), 0);
  progress.Start("count links for the cache", n, "nodes");
  for (NodeId node = 0; node < n; ++node) {
    const NodeId* links = index.Links(node, l0.data() + records.Offset(node));
    for (std::uint32_t i = 0; i < records.max_links && links[i] < n; ++i) {
      ++uses[ByBlock(index) ? records.Offset(links[i]) / kBlockBytes : links[i]];
    }
    if (node % 65536 == 65535) progress.Advance(65536);
  }
  progress.Finish();
  const std::uint32_t unit_bytes = UnitBytes(index);
  std::vector<std::byte> copy(unit_bytes);
  for (const std::uint64_t unit : MostUsedBlocks(uses, cache.stats().capacity_bytes / unit_bytes)) {
    const std::byte* bytes = l0.data() + unit * kBlockBytes;
    if (!ByBlock(index)) {
      const auto node = static_cast<NodeId>(unit);
      std::copy_n(l0.data() + records.Offset(node), records.RecordBytes(node), copy.data());
      bytes = copy.data();
    }
    if (!cache.Fill(unit, bytes)) break;
  }
  return absl::OkStatus();
}

}  // namespace hmann
