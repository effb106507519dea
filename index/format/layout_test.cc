#include "index/format/layout.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "index/base/random.h"

namespace hmann {
namespace {

/// The rule as FORMAT.md states it, by plain division.
std::uint64_t SlowOffset(const RecordLayout& layout, NodeId id) {
  const bool full = id >= layout.n1;
  const std::uint64_t payload =
      full ? layout.label_offset + layout.label_bytes : std::uint64_t{4} * layout.max_links;
  const std::uint64_t record = (payload + 63) / 64 * 64;
  const auto place = [](std::uint64_t rank, std::uint64_t bytes) {
    if (bytes > 4096) return rank * ((bytes + 4095) / 4096 * 4096);
    const std::uint64_t per_block = 4096 / bytes;
    return rank / per_block * 4096 + rank % per_block * bytes;
  };
  if (!full) return place(id, record);
  const std::uint64_t links = (std::uint64_t{4} * layout.max_links + 63) / 64 * 64;
  const std::uint64_t region_b =
      layout.n1 == 0 ? 0 : (place(layout.n1 - 1, links) + links + 4095) / 4096 * 4096;
  return region_b + place(id - layout.n1, record);
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
    for (std::uint64_t i = 0; i < 50; ++i) {
      const std::uint64_t picks[] = {0,     n1 - (n1 > 0),   n1,
                                     n - 1, draw(10 + i, n), draw(100 + i, n)};
      const auto id = static_cast<NodeId>(picks[i % 6]);
      ASSERT_EQ(layout.Offset(id), SlowOffset(layout, id)) << id;
      ASSERT_LE(layout.Offset(id) + layout.RecordBytes(id), layout.TotalBytes());
    }
    ASSERT_EQ(layout.TotalBytes() % kBlockBytes, 0u);
    ASSERT_LT(layout.TotalBytes() - (layout.Offset(static_cast<NodeId>(n - 1)) +
                                     layout.RecordBytes(static_cast<NodeId>(n - 1))),
              kBlockBytes);
  }
}

TEST(RecordLayout, RecordsFollowOneAnotherAndDoNotStraddleBlocks) {
  for (const std::uint32_t row_bytes : {1, 4, 28, 128, 132, 384, 1537, 3900, 4096, 9000}) {
    const RecordLayout layout = RecordLayout::Make(700, 131, 32, row_bytes, 8);
    for (NodeId id = 0; id < 700; ++id) {
      const std::uint64_t begin = layout.Offset(id), end = begin + layout.RecordBytes(id);
      ASSERT_EQ(begin % 64, 0u);
      if (id > 0) {
        ASSERT_GE(begin, layout.Offset(id - 1) + layout.RecordBytes(id - 1));
      }
      ASSERT_TRUE(layout.RecordBytes(id) > kBlockBytes
                      ? begin % kBlockBytes == 0
                      : begin / kBlockBytes == (end - 1) / kBlockBytes)
          << id;
    }
    EXPECT_EQ(layout.Offset(131) % kBlockBytes, 0u) << "region B starts on a block";
  }
}

TEST(RecordLayout, RowAndLinksStartCacheLinesWhenTheRowIsWholeLines) {
  const RecordLayout sift = RecordLayout::Make(1'000'000, 160'000, 32, 128, 4);
  EXPECT_EQ(sift.row_offset, 0u);
  EXPECT_EQ(sift.links_offset, 128u);
  EXPECT_EQ(sift.label_offset, 256u);
  EXPECT_EQ(sift.RecordBytes(0), 128u);
  EXPECT_EQ(sift.LinksOffset(0), 0u);
  EXPECT_EQ(sift.RecordBytes(160'000), 320u);
  EXPECT_EQ(sift.LinksOffset(160'000), 128u);
  EXPECT_EQ(sift.Offset(160'000), 160'000u / 32 * 4096);
  EXPECT_EQ(sift.Offset(160'012), 160'000u / 32 * 4096 + 4096)
      << "12 records of 320 bytes fill a block";
  EXPECT_EQ(sift.LinksEnd(0), 128u);
  EXPECT_EQ(sift.LinksEnd(160'000), 256u);
  const RecordLayout labels = RecordLayout::Make(10, 0, 3, 6, 8);
  EXPECT_EQ(labels.links_offset, 8u);
  EXPECT_EQ(labels.label_offset, 24u) << "8-byte labels are aligned";
}

}  // namespace
}  // namespace hmann
