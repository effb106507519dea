#include "index/format/layout.h"

#include <algorithm>
#include <numeric>

#include "index/base/buffer.h"
#include "index/base/check.h"
#include "index/base/prefetch.h"

namespace hmann {
namespace {

/// Units of `count` records. In one, the heads lie one after another from its start on,
/// and the tails after the last of them. A row of 0 bytes: there are only the tails.
RecordLayout::Region MakeRegion(std::uint64_t count, std::uint64_t unit_bytes, std::uint64_t row,
                                std::uint64_t tail) {
  RecordLayout::Region region;
  region.per_unit = static_cast<std::uint32_t>(count);
  region.unit_bytes = static_cast<std::uint32_t>(unit_bytes);
  const auto parts = [&](std::uint64_t at, std::uint64_t part) {
    const std::uint64_t stride = count == 1 ? unit_bytes : part;
    return RecordLayout::Parts{at, unit_bytes - count * stride, static_cast<std::uint32_t>(stride)};
  };
  region.heads = parts(0, row > 0 ? row : tail);
  region.tails = parts(count * row, tail);
  // ceil(2^64 / count). Multiplied by a rank below 2^32 and shifted by 64, it gives the
  // exact quotient (its error is below 2^32 * 2^12 / 2^64).
  if (count > 1) region.units_each = ~std::uint64_t{0} / count + 1;
  return region;
}

/// As many records as `most` bytes hold with the slack after them, at least one, in
/// multiples of `step` bytes.
RecordLayout::Region MakeUnits(std::uint64_t row, std::uint64_t tail, std::uint64_t most,
                               std::uint64_t step) {
  const std::uint64_t record = row + tail,
                      count = std::max<std::uint64_t>(1, (most - kListSlackBytes) / record);
  return MakeRegion(count, RoundUp(count * record + kListSlackBytes, step), row, tail);
}

/// One record a unit, on the largest power of two up to a cache line that wastes at most
/// 4 %.
RecordLayout::Region MakePacked(std::uint64_t row, std::uint64_t tail) {
  std::uint64_t step = kCacheLineBytes;
  while (step > sizeof(float) && 25 * RoundUp(row + tail, step) > 26 * (row + tail)) step /= 2;
  const std::uint64_t bytes = RoundUp(row + tail, step), after = bytes - row - tail;
  RecordLayout::Region region = MakeRegion(1, bytes, row, tail);
  region.slack =
      kListSlackBytes - static_cast<std::uint32_t>(std::min<std::uint64_t>(kListSlackBytes, after));
  return region;
}

/// Puts region B after region A.
void Place(RecordLayout& layout) {
  std::uint64_t end = 0, units = 0;
  for (RecordLayout::Region& region : layout.regions) {
    const std::uint64_t records = &region == layout.regions ? layout.n1 : layout.n - layout.n1,
                        count = (records + region.per_unit - 1) / region.per_unit;
    region.begin = end;
    region.heads.begin += end;
    region.tails.begin += end;
    region.first_unit = static_cast<std::uint32_t>(units);
    end += RoundUp(count * region.unit_bytes + (count > 0 ? region.slack : 0), kBlockBytes);
    units += count;
  }
  layout.total_bytes = end;
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
  static_cast<LinkPacking&>(layout) = LinkPacking::Of(max_links, n);
  return layout;
}

}  // namespace

RecordLayout RecordLayout::Make(std::uint64_t n, std::uint64_t n1, std::uint32_t max_links,
                                std::uint32_t row_bytes, std::uint32_t label_bytes) {
  RecordLayout layout = Checked(n, n1, max_links, row_bytes, label_bytes);
  const std::uint64_t row = RoundUp(row_bytes, sizeof(float)), list = layout.list_bytes,
                      tail = list + label_bytes;
  std::uint64_t most = kBlockBytes;
  layout.regions[1] = MakeUnits(row, tail, most, kSectorBytes);
  const std::uint64_t used = layout.regions[1].per_unit * (row + tail);
  // A guess, as the 4 % above. In units, neighbors come along with one read, which GloVe
  // of 100 dimensions gains by. The measured files of 128 and more have 1.05 at most.
  if (15 * std::uint64_t{layout.regions[1].unit_bytes} > 16 * used) {
    layout.regions[1] = MakePacked(row, tail);
    // A cache's copies all have the size of the longest unit.
    most = std::clamp(layout.regions[1].unit_bytes / kSectorBytes * kSectorBytes, kSectorBytes,
                      kBlockBytes);
  }
  layout.regions[0] = MakeUnits(0, list, most, kSectorBytes);
  Place(layout);
  return layout;
}

RecordLayout RecordLayout::MakeOld(std::uint64_t n, std::uint64_t n1, std::uint32_t max_links,
                                   std::uint32_t row_bytes, std::uint32_t label_bytes) {
  RecordLayout layout = Checked(n, n1, max_links, row_bytes, label_bytes);
  const std::uint64_t row = RoundUp(row_bytes, sizeof(float)), list = layout.list_bytes;
  layout.regions[0] = MakeUnits(0, list, kBlockBytes, kBlockBytes);
  layout.regions[1] = MakeUnits(row, list + label_bytes, kBlockBytes, kBlockBytes);
  Place(layout);
  return layout;
}

std::uint32_t RecordLayout::FrameBytes(std::uint32_t sector) const {
  std::uint32_t apart = sector, slack = 0;
  for (const Region& region : regions) {
    apart = std::gcd(apart, region.unit_bytes);
    slack = std::max(slack, region.slack);
  }
  const std::uint64_t read = std::max<std::uint64_t>(sector - apart + MostUnitBytes(), kBlockBytes);
  return static_cast<std::uint32_t>(RoundUp(read + slack, sector));
}

}  // namespace hmann
