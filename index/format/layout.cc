#include "index/format/layout.h"

#include <algorithm>

#include "index/base/buffer.h"
#include "index/base/check.h"
#include "index/base/prefetch.h"

namespace hmann {
namespace {

/// A unit of `count` records takes `bytes`, rounded up to blocks. In it, the heads lie
/// one after another from its start on, and the tails from `tails_at` on.
RecordLayout::Region MakeRegion(std::uint64_t begin, std::uint64_t count, std::uint64_t bytes,
                                std::uint64_t head, std::uint64_t tails_at, std::uint64_t tail) {
  RecordLayout::Region region;
  region.begin = begin;
  region.per_unit = static_cast<std::uint32_t>(count);
  region.unit_bytes = static_cast<std::uint32_t>(RoundUp(bytes, kBlockBytes));
  const auto parts = [&](std::uint64_t at, std::uint64_t part) {
    const std::uint64_t stride = count == 1 ? region.unit_bytes : part;
    return RecordLayout::Parts{begin + at, region.unit_bytes - count * stride,
                               static_cast<std::uint32_t>(stride)};
  };
  region.heads = parts(0, head);
  region.tails = parts(tails_at, tail);
  // ceil(2^64 / count). Multiplied by a rank below 2^32 and shifted by 64, it gives the
  // exact quotient (its error is below 2^32 * 2^12 / 2^64).
  if (count > 1) region.units_each = ~std::uint64_t{0} / count + 1;
  return region;
}

/// `row`, `tail`: bytes of a record's parts. A row of 0 bytes: there is only the tail.
RecordLayout::Region MakeSplitRegion(std::uint64_t begin, std::uint64_t row, std::uint64_t tail) {
  row = RoundUp(row, sizeof(float));
  const std::uint64_t record = row + tail,
                      count = std::max<std::uint64_t>(1, (kBlockBytes - kListSlackBytes) / record);
  return MakeRegion(begin, count, count * record + kListSlackBytes, row > 0 ? row : tail,
                    count * row, tail);
}

RecordLayout::Region MakeOldRegion(std::uint64_t begin, std::uint64_t list_at,
                                   std::uint64_t bytes) {
  const std::uint64_t record = RoundUp(bytes, kCacheLineBytes),
                      count = std::max<std::uint64_t>(1, kBlockBytes / record);
  return MakeRegion(begin, count, count * record, record, list_at, record);
}

std::uint64_t RegionBytes(const RecordLayout::Region& region, std::uint64_t records) {
  return (records + region.per_unit - 1) / region.per_unit * region.unit_bytes;
}

void PlaceRegions(RecordLayout& layout, const RecordLayout::Region& a, const auto& make_b) {
  layout.regions[0] = a;
  const std::uint64_t region_b = RegionBytes(a, layout.n1);
  layout.regions[1] = make_b(region_b);
  layout.total_bytes = region_b + RegionBytes(layout.regions[1], layout.n - layout.n1);
}

RecordLayout Checked(std::uint64_t n, std::uint64_t n1, std::uint32_t max_links,
                     std::uint32_t row_bytes, std::uint32_t label_bytes) {
  constexpr std::uint32_t kMost = 1u << 24;
  HMANN_CHECK(n1 <= n && n <= kMaxNodes && (label_bytes == 4 || label_bytes == 8));
  HMANN_CHECK(max_links > 0 && max_links < kMost && row_bytes > 0 && row_bytes < kMost);
  RecordLayout layout;
  layout.n = n;
  layout.n1 = n1;
  layout.row_bytes = row_bytes;
  layout.label_bytes = label_bytes;
  return layout;
}

}  // namespace

RecordLayout RecordLayout::Make(std::uint64_t n, std::uint64_t n1, std::uint32_t max_links,
                                std::uint32_t row_bytes, std::uint32_t label_bytes) {
  RecordLayout layout = Checked(n, n1, max_links, row_bytes, label_bytes);
  static_cast<LinkPacking&>(layout) = LinkPacking::Of(max_links, n);
  PlaceRegions(layout, MakeSplitRegion(0, 0, layout.list_bytes), [&](std::uint64_t begin) {
    return MakeSplitRegion(begin, row_bytes, layout.list_bytes + label_bytes);
  });
  return layout;
}

RecordLayout RecordLayout::MakeOld(std::uint64_t n, std::uint64_t n1, std::uint32_t max_links,
                                   std::uint32_t row_bytes, std::uint32_t label_bytes) {
  RecordLayout layout = Checked(n, n1, max_links, row_bytes, label_bytes);
  const std::uint64_t links = max_links * sizeof(NodeId), list = RoundUp(row_bytes, sizeof(NodeId)),
                      label = RoundUp(list + links, label_bytes);
  layout.max_links = max_links;
  layout.link_bits = 32;
  layout.list_bytes = static_cast<std::uint32_t>(label - list);
  PlaceRegions(layout, MakeOldRegion(0, 0, links), [&](std::uint64_t begin) {
    return MakeOldRegion(begin, list, label + label_bytes);
  });
  return layout;
}

}  // namespace hmann
