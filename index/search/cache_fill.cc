#include "index/search/cache_fill.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "index/base/cpu.h"
#include "index/base/thread_pool.h"

namespace hmann {
namespace {

bool ByBlock(const PlacedIndex& index) { return index.blocks != nullptr; }

std::uint64_t Units(const PlacedIndex& index) {
  return ByBlock(index) ? index.records.Units() : index.records.n;
}

std::uint32_t UnitBytes(const PlacedIndex& index) {
  return ByBlock(index) ? index.records.MostUnitBytes() : index.MostRecordBytes();
}

void CopyUnit(const PlacedIndex& index, const std::byte* l0, std::uint64_t unit, std::byte* to) {
  if (ByBlock(index)) {
    const auto [begin, bytes] = index.records.ExtentOf(static_cast<std::uint32_t>(unit));
    std::copy_n(l0 + begin, bytes, to);
  } else {
    const auto node = static_cast<NodeId>(unit);
    index.CopyRecord(node, l0 + index.records.Offset(node), to);
  }
}

constexpr std::size_t kNodesPerStep = 65536, kUnitsAtOnce = 8192;

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
  ThreadPool pool(UsableCores());
  progress.Start("count links for the cache", n, "nodes");
  pool.ParallelFor(n, kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
    std::vector<NodeId> scratch(records.max_links);
    for (auto node = static_cast<NodeId>(begin); node < end; ++node) {
      const NodeId* links = index.Links(node, l0.data() + records.Offset(node), scratch.data());
      for (std::uint32_t i = 0; i < records.max_links && links[i] < n; ++i) {
        if (links[i] < index.n1()) continue;  // in fast memory
        std::uint32_t& use = uses[ByBlock(index) ? records.UnitOf(links[i]) : links[i]];
        std::atomic_ref(use).fetch_add(1, std::memory_order_relaxed);
      }
    }
    progress.Advance(end - begin);
  });
  progress.Finish();
  const std::uint32_t unit_bytes = UnitBytes(index);
  const std::vector<std::uint64_t> most =
      MostUsedBlocks(uses, cache.stats().capacity_bytes / unit_bytes);
  // Read on all threads, which a device needs; stored by one.
  std::vector<std::byte> copies(std::min(most.size(), kUnitsAtOnce) * unit_bytes);
  progress.Start("fill the cache", most.size(), "records");
  for (std::size_t first = 0; first < most.size(); first += kUnitsAtOnce) {
    const std::size_t count = std::min(kUnitsAtOnce, most.size() - first);
    pool.ParallelFor(count, 64, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        CopyUnit(index, l0.data(), most[first + i], copies.data() + i * unit_bytes);
      }
    });
    for (std::size_t i = 0; i < count; ++i) {
      if (!cache.Fill(most[first + i], copies.data() + i * unit_bytes)) break;
    }
    progress.Advance(count);
  }
  progress.Finish();
  return absl::OkStatus();
}

}  // namespace hmann
