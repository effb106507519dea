// Sets of matches: bits in shared pieces, or ids.
#include "hmann/matches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "index/base/random.h"

namespace hmann {
namespace {

constexpr std::uint64_t kHash = 7, kPiece = 512 * 1024, kPieceBytes = 64 * 1024;
using Ids = std::vector<std::uint32_t>;  ///< ascending

Matches BitsOf(std::uint64_t n, const Ids& ids) {
  Matches matches(n, kHash);
  for (const std::uint32_t id : ids) matches.Add(id);
  return matches;
}
Matches ListOf(std::uint64_t n, const Ids& ids) { return {n, kHash, ids}; }

/// About one id in `of`, and those at the ends of pieces.
Ids SomeIds(std::uint64_t n, std::uint64_t of, std::uint64_t seed) {
  Ids ids;
  for (std::uint64_t i = 0; i < n / of + 1; ++i)
    ids.push_back(static_cast<std::uint32_t>(RandomBelow(seed, i, n)));
  for (const std::uint64_t id : {std::uint64_t{0}, kPiece - 1, kPiece, n - 1}) {
    if (id < n && RandomBelow(seed + 1, id, 2) == 0) ids.push_back(static_cast<std::uint32_t>(id));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void ExpectIs(const Matches& matches, const Ids& ids) {
  ASSERT_EQ(matches.size(), ids.size());
  std::uint64_t next = matches.Next(0);
  std::vector<std::uint32_t> all(ids.size() + 1);
  ASSERT_EQ(matches.Next(0, all), ids.size());
  ASSERT_TRUE(std::equal(ids.begin(), ids.end(), all.begin()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(next, ids[i]);
    ASSERT_TRUE(matches.Has(ids[i]));
    if (ids[i] > 0) {
      ASSERT_EQ(matches.Has(ids[i] - 1), i > 0 && ids[i - 1] == ids[i] - 1);
    }
    next = matches.Next(std::uint64_t{ids[i]} + 1);
  }
  EXPECT_EQ(next, matches.n());
  EXPECT_EQ(matches.Next(matches.n()), matches.n());
  EXPECT_EQ(matches.Next(matches.n(), all), 0u);
}

class MatchesOf : public testing::TestWithParam<std::uint64_t> {};

TEST_P(MatchesOf, AllAreAllAndTakeNoMemory) {
  const std::uint64_t n = GetParam();
  const Matches all = Matches::All(n, kHash);
  EXPECT_EQ(all.size(), n);
  EXPECT_LE(all.bytes(), n % kPiece / 8 + 8 + (n / kPiece + 1) * 16);
  for (std::uint64_t id = 0; id <= n; ++id) ASSERT_EQ(all.Next(id), id);
  const Ids some = SomeIds(n, 1000, 5);
  ExpectIs(all.And(BitsOf(n, some)), some);
  ExpectIs(BitsOf(n, some).And(all), some);
  ExpectIs(all.And(ListOf(n, some)), some);
}

TEST_P(MatchesOf, WithoutSomeAndInBothAsTheirDefinitionsSay) {
  const std::uint64_t n = GetParam();
  for (const std::uint64_t of : {1, 7, 3000}) {
    const Ids a = SomeIds(n, of, 1), b = SomeIds(n, 3, 2);
    Ids without, both;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(without));
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    std::vector<std::uint32_t> gone(b.rbegin(), b.rend());
    gone.push_back(gone[0]);
    for (const Matches& matches : {BitsOf(n, a), ListOf(n, a)}) {
      ExpectIs(matches.Without(gone), without);
      ExpectIs(matches.Without({}), a);
      ExpectIs(matches, a);
      for (const Matches& other : {BitsOf(n, b), ListOf(n, b)}) ExpectIs(matches.And(other), both);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, MatchesOf,
                         testing::Values(1, 63, 64, 65, kPiece - 1, kPiece, kPiece + 1,
                                         2 * kPiece + 100));

TEST(Matches, IgnoreBitsFromNOn) {
  for (const std::uint64_t n : {std::uint64_t{1}, std::uint64_t{70}, kPiece + 3}) {
    const std::vector<std::uint64_t> ones((n + 63) / 64, ~std::uint64_t{0});
    const Matches matches(n, kHash, ones);
    EXPECT_EQ(matches.size(), n);
    EXPECT_EQ(matches.Next(n - 1), n - 1);
    std::vector<std::uint32_t> ids(2);
    EXPECT_EQ(matches.Next(n - 1, ids), 1u);
  }
}

/// What a snapshot costs: the pieces that differ from those before.
TEST(Matches, ShareThePiecesThatAreEqual) {
  constexpr std::uint64_t kN = 8 * kPiece;
  const Matches all = Matches::All(kN, kHash);
  const std::uint32_t some[] = {5, kPiece + 1, 6, 5};
  const Matches less = all.Without(some);
  EXPECT_EQ(less.size(), kN - 3);
  EXPECT_EQ(less.bytes(), all.bytes() + 2 * kPieceBytes);
  EXPECT_EQ(all.And(less).bytes(), less.bytes());
  EXPECT_EQ(all.size(), kN);
  EXPECT_TRUE(all.Has(5));
  EXPECT_FALSE(less.Has(5));
}

}  // namespace
}  // namespace hmann
