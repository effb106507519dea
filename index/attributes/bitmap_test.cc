#include "index/attributes/bitmap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "index/base/random.h"

namespace hmann {
namespace {

/// Ids of every kind of container: few, many, and runs.
std::vector<std::uint32_t> AnyIds(std::uint64_t n, std::uint64_t seed) {
  std::set<std::uint32_t> ids;
  for (std::uint64_t i = 0; i < 3000; ++i)
    ids.insert(static_cast<std::uint32_t>(RandomBelow(seed, i, n)));
  const auto from = static_cast<std::uint32_t>(RandomBelow(seed, 9000, n / 2));
  for (std::uint32_t i = 0; i < n / 5; ++i) ids.insert(from + i);
  for (std::uint32_t i = 0; i < n / 3; i += 2) ids.insert(i);
  return {ids.begin(), ids.end()};
}

std::vector<std::byte> PortableBytes(const std::vector<std::uint32_t>& ids) {
  const Roaring bitmap(roaring_bitmap_of_ptr(ids.size(), ids.data()));
  return BitmapBytes(*bitmap);
}

TEST(Bitmap, ComesBackFromItsBytes) {
  for (const std::uint64_t n : {100u, 70'000u, 1'000'000u}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const std::vector<std::uint32_t> ids = AnyIds(n, seed);
      const std::vector<std::byte> bytes = PortableBytes(ids);
      ASSERT_EQ(BitmapFault(bytes, n), nullptr);
      const auto back = ReadBitmap(bytes, n);
      ASSERT_TRUE(back.ok());
      std::vector<std::uint32_t> read(roaring_bitmap_get_cardinality(back->get()));
      roaring_bitmap_to_uint32_array(back->get(), read.data());
      EXPECT_EQ(read, ids);
      EXPECT_STREQ(BitmapFault(bytes, ids.back()), "it has an id that is no vector");
    }
  }
  EXPECT_EQ(BitmapFault(PortableBytes({}), 0), nullptr);
}

TEST(Bitmap, CutShortIsRefused) {
  const std::vector<std::byte> bytes = PortableBytes(AnyIds(300'000, 4));
  for (std::size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 97)
    EXPECT_NE(BitmapFault({bytes.data(), size}, 300'000), nullptr) << size;
  std::vector<std::byte> longer = bytes;
  longer.push_back({});
  EXPECT_STREQ(BitmapFault(longer, 300'000), "it is longer than its containers");
}

/// A bitmap of one container in the portable format.
std::vector<std::byte> Container(std::uint32_t cardinality, const std::vector<std::uint16_t>& words,
                                 bool runs) {
  std::vector<std::uint16_t> all = {12346, 0, 1, 0};  // no runs, one container
  if (runs) all = {12347, 0};
  all.insert(all.end(), {0, static_cast<std::uint16_t>(cardinality - 1)});
  if (!runs) all.insert(all.end(), {16, 0});
  all.insert(all.end(), words.begin(), words.end());
  std::vector<std::byte> bytes(all.size() * 2);
  std::memcpy(bytes.data(), all.data(), bytes.size());
  if (!runs) return bytes;
  // After the cookie of a bitmap with runs comes a byte of flags.
  std::vector<std::byte> flagged(bytes.begin(), bytes.begin() + 4);
  flagged.push_back(std::byte{1});
  for (std::size_t i = 4; i < bytes.size(); ++i) flagged.push_back(bytes[i]);
  return flagged;
}

TEST(Bitmap, FaultsHaveNames) {
  EXPECT_EQ(BitmapFault(Container(3, {1, 5, 9}, false), 10), nullptr);
  EXPECT_EQ(BitmapFault(Container(4, {2, 1, 1, 7, 1}, true), 10), nullptr);
  for (const auto& [bytes, fault] : {
           std::pair(Container(3, {1, 5, 9}, false), "it has an id that is no vector"),
           std::pair(Container(3, {5, 1, 8}, false), "its ids are not in order"),
           std::pair(Container(3, {1, 1, 8}, false), "its ids are not in order"),
           std::pair(Container(4, {1, 5, 8}, false), "it is cut short"),
           std::pair(Container(4, {2, 1, 1, 8, 1}, true), "it has an id that is no vector"),
           std::pair(Container(4, {2, 5, 1}, true), "it is cut short"),
           std::pair(Container(4, {2, 4, 1, 1, 1}, true), "its runs are not in order"),
           std::pair(Container(4, {1, 65'535, 3}, true), "a run leaves its container"),
           std::pair(Container(5, {2, 1, 1, 6, 0}, true), "a container has not its number of ids"),
       }) {
    EXPECT_STREQ(BitmapFault(bytes, 9), fault);
    EXPECT_EQ(ReadBitmap(bytes, 9).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(IdSet, OfEitherKindCombine) {
  constexpr std::uint64_t kIds = 200'000;
  const auto make = [](std::uint64_t seed, bool dense) {
    const std::vector<std::uint32_t> ids = AnyIds(kIds, seed);
    if (!dense) return IdSet(kIds, Roaring(roaring_bitmap_of_ptr(ids.size(), ids.data())));
    return IdSet::Of(kIds, ids);
  };
  const auto words = [](IdSet set) { return std::move(set).TakeWords(); };
  const std::vector<std::uint64_t> a = words(make(1, true)), b = words(make(2, false));
  EXPECT_EQ(words(make(1, false)), a);
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      IdSet both = make(1, first), either = make(1, first), none = make(1, first);
      both.And(make(2, second));
      either.Or(make(2, second));
      none.Not();
      const auto in_both = words(std::move(both)), in_either = words(std::move(either)),
                 in_none = words(std::move(none));
      for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_EQ(in_both[i], a[i] & b[i]);
        ASSERT_EQ(in_either[i], a[i] | b[i]);
        ASSERT_EQ(in_none[i], ~a[i]);
      }
    }
  }
  std::vector<std::uint32_t> few = {150'000, 3, 77};
  EXPECT_EQ(words(IdSet::Of(kIds, few)),
            words(IdSet::Of(kIds, std::vector<std::uint32_t>{3, 77, 150'000})));
}

}  // namespace
}  // namespace hmann
