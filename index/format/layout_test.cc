#include "index/format/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/random.h"

namespace hmann {
namespace {

/// The rule as FORMAT.md states it, by plain division.
struct Slow {
  std::uint64_t row = 0, list = 0, end = 0;  ///< end: of the section so far
};
Slow SlowPlace(const RecordLayout& layout, NodeId id) {
  const auto up = [](std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; };
  const auto of = [&](std::uint64_t rank, std::uint64_t row, std::uint64_t tail,
                      std::uint64_t most) {
    const std::uint64_t record = row + tail,
                        count = std::max<std::uint64_t>(1, (most - 16) / record),
                        unit = up(count * record + 16, 512), begin = rank / count * unit,
                        slot = rank % count;
    return Slow{begin + slot * row, begin + count * row + slot * tail, up(begin + unit, 4096)};
  };
  const std::uint64_t list = (std::uint64_t{layout.max_links} * layout.link_bits + 7) / 8,
                      row = up(layout.row_bytes, 4), tail = list + layout.label_bytes,
                      record = row + tail, count = std::max<std::uint64_t>(1, 4080 / record),
                      unit = up(count * record + 16, 512);
  const bool packed = unit * 15 > count * record * 16;
  std::uint64_t stride = record;
  for (const std::uint64_t step : {64, 32, 16, 8, 4}) {
    stride = up(record, step);
    if (25 * stride <= 26 * record) break;
  }
  const std::uint64_t most =
      packed ? std::clamp<std::uint64_t>(stride / 512 * 512, 512, 4096) : 4096;
  if (id < layout.n1) return of(id, 0, list, most);
  const std::uint64_t region_b = layout.n1 == 0 ? 0 : of(layout.n1 - 1, 0, list, most).end,
                      rank = id - layout.n1;
  Slow slow = of(rank, row, tail, 4096);
  if (packed) {
    const std::uint64_t spare = std::min<std::uint64_t>(16, stride - record);
    slow = {rank * stride, rank * stride + row, up((rank + 1) * stride + 16 - spare, 4096)};
  }
  return {slow.row + region_b, slow.list + region_b, slow.end + region_b};
}

TEST(RecordLayout, OffsetsAreThoseOfPlainDivision) {
  for (std::uint64_t trial = 0; trial < 2000; ++trial) {
    const auto draw = [&](std::uint64_t i, std::uint64_t below) {
      return RandomBelow(trial, i, below);
    };
    const std::uint64_t n = 1 + draw(0, trial % 2 == 0 ? 1000 : kMaxNodes);
    const std::uint64_t n1 = draw(1, n);
    const auto row_bytes = static_cast<std::uint32_t>(1 + draw(3, trial % 3 == 0 ? 20000 : 1000));
    const RecordLayout layout = RecordLayout::Make(
        n, n1, 2 * static_cast<std::uint32_t>(1 + draw(2, trial % 5 == 0 ? 2000 : 96)), row_bytes,
        draw(4, 2) == 0 ? 4 : 8);
    SCOPED_TRACE(absl::StrCat("seed ", trial, ": n ", n, " n1 ", n1, " links ", layout.max_links,
                              " row ", row_bytes));
    ASSERT_GE(std::uint64_t{1} << layout.link_bits, n + 1) << "all ones is no node";
    for (std::uint64_t i = 0; i < 50; ++i) {
      const std::uint64_t picks[] = {0,     n1 - (n1 > 0),   n1,
                                     n - 1, draw(10 + i, n), draw(100 + i, n)};
      const auto id = static_cast<NodeId>(picks[i % 6]);
      const Slow slow = SlowPlace(layout, id);
      ASSERT_EQ(layout.Offset(id), id < n1 ? slow.list : slow.row) << id;
      ASSERT_EQ(layout.Offset(id) + layout.LinksOffset(id), slow.list) << id;
      ASSERT_LE(slow.end, layout.TotalBytes());
    }
    ASSERT_EQ(SlowPlace(layout, static_cast<NodeId>(n - 1)).end, layout.TotalBytes());
  }
}

TEST(RecordLayout, PartsShareNoByteAndUnitsEndInSlack) {
  for (const std::uint32_t row_bytes :
       {1, 4, 28, 128, 132, 384, 784, 1537, 2048, 3900, 4096, 9000}) {
    const RecordLayout layout = RecordLayout::Make(700, 131, 32, row_bytes, 8);
    std::vector<int> used(layout.TotalBytes());
    for (NodeId id = 0; id < 700; ++id) {
      const std::uint64_t begin = layout.Offset(id), list = begin + layout.LinksOffset(id);
      const bool full = id >= 131;
      for (std::uint64_t i = 0; full && i < row_bytes; ++i) ASSERT_EQ(used[begin + i]++, 0);
      const std::uint64_t tail = layout.list_bytes + (full ? 8u : 0u);
      for (std::uint64_t i = 0; i < tail; ++i) ASSERT_EQ(used[list + i]++, 0);
      EXPECT_LE(list + layout.list_bytes + kListSlackBytes, layout.TotalBytes());
      const std::uint32_t unit = layout.UnitOf(id);
      ASSERT_LT(unit, layout.Units());
      for (const std::uint32_t sector : {512, 4096}) {
        const auto [from, bytes] = layout.ExtentOf(unit).Aligned(sector);
        EXPECT_TRUE(from % sector == 0 && bytes % sector == 0 && bytes > 0);
        EXPECT_LE(from + bytes, layout.TotalBytes());
        EXPECT_GE(begin, from);
        EXPECT_LE(list + tail, from + bytes);
        EXPECT_LE(list + layout.list_bytes + kListSlackBytes, from + layout.FrameBytes(sector));
      }
    }
  }
}

TEST(RecordLayout, RowsOfWholeLinesStartOnOne) {
  const RecordLayout sift = RecordLayout::Make(1'000'000, 160'000, 32, 128, 4);
  EXPECT_EQ(sift.link_bits, 20u);
  EXPECT_EQ(sift.list_bytes, 80u);
  EXPECT_EQ(sift.regions[0].per_unit, 51u);
  EXPECT_EQ(sift.regions[1].per_unit, 19u) << "of 212 bytes";
  for (NodeId id = 160'000; id < 161'000; ++id) EXPECT_EQ(sift.Offset(id) % 64, 0u);
}

TEST(RecordLayout, LittleIsPaddingAndNoReadIsLongerThanItWas) {
  for (const std::uint32_t dim :
       {96, 100, 128, 200, 256, 300, 384, 512, 768, 784, 1024, 1536, 3072, 4096}) {
    for (const std::uint32_t size : {1, 2, 4}) {
      for (const std::uint32_t label : {4, 8}) {
        SCOPED_TRACE(absl::StrCat(dim, " dimensions of ", size, " bytes, labels of ", label));
        const NodeId n = 1'000'000, n1 = 160'000;
        const RecordLayout now = RecordLayout::Make(n, n1, 32, dim * size, label),
                           old = RecordLayout::MakeOld(n, n1, 32, dim * size, label);
        std::uint64_t used =
            n1 * std::uint64_t{now.RecordBytes(0)} + (n - n1) * std::uint64_t{now.RecordBytes(n1)};
        EXPECT_LE(static_cast<double>(now.TotalBytes()) / static_cast<double>(used), 1.07);
        EXPECT_LE(now.TotalBytes(), old.TotalBytes());
        double bytes = 0, bytes_old = 0;
        for (NodeId id = n1; id < n1 + 1000; ++id) {
          bytes += now.ExtentOf(now.UnitOf(id)).Aligned(512).bytes;
          bytes_old += old.ExtentOf(old.UnitOf(id)).Aligned(512).bytes;
        }
        EXPECT_LE(bytes, bytes_old);
      }
    }
  }
}

TEST(RecordLayout, ListsOfAnyWidthComeBack) {
  for (const std::uint64_t n : {1u, 2u, 3u, 200u, 70'000u, 1u << 20, 1u << 24, (1u << 25) - 1,
                                1u << 25, 1u << 28, (1u << 31) - 1}) {
    for (const std::uint32_t most : {2u, 6u, 32u, 97u}) {
      RecordLayout layout = RecordLayout::Make(n, 0, most, 4, 4);
      std::vector<NodeId> links(most, kNoNode);
      for (std::uint32_t i = 0; i < most / 2; ++i)
        links[i] = static_cast<NodeId>(RandomBelow(n, i, n));
      std::vector<std::byte> list(layout.list_bytes + kListSlackBytes);
      layout.Pack(links.data(), list.data());
      for (std::size_t i = layout.list_bytes; i < list.size(); ++i)
        EXPECT_EQ(list[i], std::byte{0});
      std::fill(list.begin() + layout.list_bytes, list.end(), std::byte{0xff});
      for (const UnpackList unpack : {layout.unpack, &UnpackScalar}) {
        layout.unpack = unpack;
        std::vector<NodeId> back(most);
        layout.UnpackPadded(list.data(), back.data());
        EXPECT_EQ(links, back) << n << " " << most;
      }
    }
  }
}

}  // namespace
}  // namespace hmann
