#include "index/format/layout.h"

#include "index/base/buffer.h"
#include "index/base/check.h"
#include "index/base/prefetch.h"

namespace hmann {
namespace {

RecordLayout::Region MakeRegion(std::uint64_t begin, std::uint64_t payload_bytes) {
  RecordLayout::Region region;
  region.begin = begin;
  region.record_bytes = static_cast<std::uint32_t>(RoundUp(payload_bytes, kCacheLineBytes));
  const std::uint64_t per_block = kBlockBytes / region.record_bytes;
  if (per_block < 2) {
    region.stride = RoundUp(region.record_bytes, kBlockBytes);
    return region;
  }
  region.stride = region.record_bytes;
  region.block_waste = kBlockBytes - per_block * region.record_bytes;
  // ceil(2^64 / per_block). Multiplied by a rank below 2^32 and shifted by 64, it gives
  // the exact quotient (its error is below 2^32 * 64 / 2^64).
  if (region.block_waste != 0) region.blocks_per_record = ~std::uint64_t{0} / per_block + 1;
  return region;
}

std::uint64_t RegionBytes(const RecordLayout::Region& region, std::uint64_t records) {
  const std::uint64_t per_block = kBlockBytes / region.record_bytes;
  return per_block < 2 ? records * region.stride
                       : (records + per_block - 1) / per_block * kBlockBytes;
}

}  // namespace

RecordLayout RecordLayout::Make(std::uint64_t n, std::uint64_t n1, std::uint32_t max_links,
                                std::uint32_t row_bytes, std::uint32_t label_bytes) {
  constexpr std::uint32_t kMost = 1u << 24;
  HMANN_CHECK(n1 <= n && n <= kMaxNodes && (label_bytes == 4 || label_bytes == 8));
  HMANN_CHECK(max_links > 0 && max_links < kMost && row_bytes > 0 && row_bytes < kMost);
  RecordLayout layout;
  layout.n = n;
  layout.n1 = n1;
  layout.max_links = max_links;
  layout.row_bytes = row_bytes;
  layout.label_bytes = label_bytes;
  const std::uint64_t link_bytes = std::uint64_t{max_links} * sizeof(NodeId);
  layout.links_offset = static_cast<std::uint32_t>(RoundUp(row_bytes, sizeof(NodeId)));
  layout.label_offset =
      static_cast<std::uint32_t>(RoundUp(layout.links_offset + link_bytes, label_bytes));
  layout.regions[0] = MakeRegion(0, link_bytes);
  const std::uint64_t region_b = RegionBytes(layout.regions[0], n1);
  layout.regions[1] = MakeRegion(region_b, layout.label_offset + label_bytes);
  layout.total_bytes = region_b + RegionBytes(layout.regions[1], n - n1);
  return layout;
}

}  // namespace hmann
