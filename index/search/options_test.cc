#include "index/search/options.h"

#include <gtest/gtest.h>

namespace hmann {
namespace {

TEST(SearchOptions, WalksAreNamed) {
  EXPECT_EQ(*ParseWalk("beams"), Walk::kBeams);
  EXPECT_EQ(*ParseWalk("pool"), Walk::kPool);
  EXPECT_EQ(*ParseWalk("default"), Walk::kDefault);
  EXPECT_EQ(ParseWalk("gate").status().code(), absl::StatusCode::kInvalidArgument);
  for (const Walk walk : {Walk::kDefault, Walk::kBeams, Walk::kPool, Walk::kGated}) EXPECT_EQ(*ParseWalk(Name(walk)), walk);
}

TEST(SearchOptions, DefaultsAreFilledIn) {
  for (const Walk walk : {Walk::kDefault, Walk::kBeams, Walk::kPool, Walk::kGated}) {
    for (const std::uint32_t k : {1u, 10u, 1000u, 100000u}) {
      const SearchOptions resolved =
          SearchOptions{.k = k, .walk = walk}.Resolved({.n = 1000000, .n1 = 160000, .has_sketches = true, .has_cells = true});
      EXPECT_NE(resolved.walk, Walk::kDefault);
      EXPECT_GT(resolved.ef_l1, 0u);
      EXPECT_GT(resolved.ef_l0, 0) << "defaults search L0";
      EXPECT_EQ(resolved.k, k);
    }
  }
}

TEST(SearchOptions, WidthsAreRaisedToHoldK) {
  const auto resolved = [](std::uint32_t k, std::uint32_t ef_l1, std::int64_t ef_l0, Walk walk) {
    return SearchOptions{.k = k, .ef_l1 = ef_l1, .ef_l0 = ef_l0, .walk = walk}.Resolved({.n = 1000, .n1 = 100});
  };
  EXPECT_EQ(resolved(50, 8, 20, Walk::kPool).ef_l0, 50);
  EXPECT_EQ(resolved(50, 8, 60, Walk::kPool).ef_l0, 60);
  EXPECT_EQ(resolved(50, 8, 2, Walk::kBeams).ef_l0, 2) << "a beam of its own each: their results together hold k";
  EXPECT_EQ(resolved(50, 8, 0, Walk::kPool).ef_l1, 50u) << "answers from L1";
  EXPECT_EQ(resolved(50, 8, 0, Walk::kPool).ef_l0, 0);
  EXPECT_EQ(resolved(100, 8, 0, Walk::kBeams).ef_l0, 0);
  EXPECT_EQ(resolved(101, 8, 0, Walk::kBeams).ef_l0, 101) << "more than L1 has: L0 is searched after all";
  EXPECT_EQ(resolved(10, 5000, 5000, Walk::kPool).ef_l1, 100u) << "no wider than the layer";
  EXPECT_EQ(resolved(10, 5000, 5000, Walk::kPool).ef_l0, 1000);
}

TEST(SearchOptions, LimitsAreInclusive) {
  EXPECT_TRUE((SearchOptions{.k = 7}.Validate(7).ok()));
  EXPECT_FALSE((SearchOptions{.k = 8}.Validate(7).ok()));
  EXPECT_FALSE((SearchOptions{.k = 0}.Validate(7).ok()));
  EXPECT_TRUE((SearchOptions{.k = 1, .ef_l1 = kMaxEf, .ef_l0 = kMaxEf, .query_threads = 64}.Validate(7).ok()));
  EXPECT_FALSE((SearchOptions{.k = kMaxEf + 1}.Validate(1u << 30).ok()));
}

}  // namespace
}  // namespace hmann
