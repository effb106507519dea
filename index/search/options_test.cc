#include "index/search/options.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(SearchOptions, GatesAreTheDefaultWhereTheyPay) {
  const auto walk = [](const SearchContext& context, std::int64_t ef_l0 = -1) {
    return SearchOptions{.ef_l0 = ef_l0}.Resolved(context).walk;
  };
  const SearchContext plain{.n = 1000, .n1 = 100};
  SearchContext by_hub = plain, by_link = plain;
  by_hub.has_sketches = by_hub.has_cells = by_link.has_sketches = true;
  EXPECT_EQ(walk(plain), Walk::kPool);
  EXPECT_EQ(walk(by_hub), Walk::kPool);
  EXPECT_EQ(walk(by_link), Walk::kGated);
  for (SearchContext* context : {&by_hub, &by_link}) {
    context->far = true;
    EXPECT_EQ(walk(*context), Walk::kGated);
    EXPECT_EQ(walk(*context, 0), Walk::kPool) << "answers from L1 need no gate";
  }
  by_hub.far = false;
  by_hub.block_tier = true;
  EXPECT_EQ(walk(by_hub), Walk::kGated);
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

TEST(SearchOptions, ReachEndsAWalkWhereNothingElseIsSaid) {
  const SearchContext dram{.n = 1000000, .n1 = 160000, .has_sketches = true, .has_cells = true};
  SearchContext disk = dram, ip = dram;
  disk.block_tier = true;
  ip.has_ratios = false;
  const auto reach = [](const SearchOptions& options, const SearchContext& context) { return options.Resolved(context).reach; };
  EXPECT_GT(reach({}, dram), 1);
  EXPECT_GT(reach({.k = 1}, dram), reach({.k = 10}, dram));
  EXPECT_GT(reach({.k = 10}, dram), reach({.k = 100}, dram));
  EXPECT_GT(reach({.walk = Walk::kGated}, dram), 1);
  EXPECT_EQ(reach({.walk = Walk::kGated}, disk), 0) << "cells have `stop`";
  EXPECT_EQ(reach({.walk = Walk::kBeams}, dram), 0);
  EXPECT_EQ(reach({.walk = Walk::kBeams, .reach = 2}, dram), 0);
  EXPECT_EQ(reach({.ef_l0 = 64}, dram), 0) << "a width that is given is the effort";
  EXPECT_EQ(reach({.ef_l0 = 64, .reach = 1.5f}, dram), 1.5f);
  EXPECT_EQ(reach({.reach = 0}, dram), 0);
  EXPECT_EQ(reach({}, ip), 0);
  for (const float given : {-1.0f, 1.3f}) {
    EXPECT_GT(SearchOptions{.reach = given}.Resolved(dram).ef_l0, SearchOptions{.reach = 0}.Resolved(dram).ef_l0) << "room for the hardest";
  }
  EXPECT_EQ(SearchOptions{.reach = 2}.CheckedFor(ip).status().code(), absl::StatusCode::kFailedPrecondition);
  for (const float wrong : {0.5f, -0.5f, 2e6f, std::nanf("")}) EXPECT_FALSE(SearchOptions{.reach = wrong}.Validate(100).ok()) << wrong;
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
