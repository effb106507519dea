#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "index/dials/dial_table.h"
#include "index/dials/options.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

constexpr SearchContext kByHub{.n = 1000000, .n1 = 160000, .has_sketches = true, .has_cells = true};

/// Of an index of 1,000 nodes, 100 of them promoted, without sketches.
Dials Small(const SearchOptions& options) {
  const absl::StatusOr<Dials> dials = options.Resolve({.n = 1000, .n1 = 100});
  EXPECT_TRUE(dials.ok()) << dials.status();
  return dials.value_or(Dials());
}

std::string Error(const SearchOptions& options, const SearchContext& context = kByHub) {
  const absl::StatusOr<Dials> dials = options.Resolve(context);
  return dials.ok() ? "" : std::string(dials.status().message());
}

TEST(SearchOptions, DefaultsAreFilledIn) {
  for (const std::optional<WalkKind> walk :
       {std::optional<WalkKind>(), std::optional(WalkKind::kBeams), std::optional(WalkKind::kPool), {WalkKind::kGated}}) {
    for (const std::uint32_t k : {1u, 10u, 1000u, 100000u}) {
      const absl::StatusOr<Dials> dials = SearchOptions{.k = k, .walk = walk}.Resolve(kByHub);
      ASSERT_TRUE(dials.ok()) << dials.status();
      EXPECT_GT(dials->ef_l1, 0u);
      EXPECT_GT(dials->ef_l0, 0u) << "defaults search L0";
      EXPECT_EQ(dials->k, k);
      EXPECT_EQ(dials->walk, walk.value_or(WalkKind::kPool));
      EXPECT_EQ(*OptionsOf(*dials).Resolve(kByHub), *dials) << "what ran can be asked for";
    }
  }
}

TEST(SearchOptions, GatesAreTheDefaultWhereTheyPay) {
  const auto walk = [](const SearchContext& context, std::optional<std::uint32_t> ef_l0 = {}) {
    return SearchOptions{.ef_l0 = ef_l0}.Resolve(context)->walk;
  };
  const SearchContext plain{.n = 1000, .n1 = 100};
  SearchContext by_hub = plain, by_link = plain;
  by_hub.has_sketches = by_hub.has_cells = by_link.has_sketches = true;
  EXPECT_EQ(walk(plain), WalkKind::kPool);
  EXPECT_EQ(walk(by_hub), WalkKind::kPool);
  EXPECT_EQ(walk(by_link), WalkKind::kGated);
  for (SearchContext* context : {&by_hub, &by_link}) {
    context->far = true;
    EXPECT_EQ(walk(*context), WalkKind::kGated);
    EXPECT_EQ(walk(*context, 0), WalkKind::kPool) << "answers from L1 need no gate";
  }
  by_hub.far = false;
  by_hub.block_tier = true;
  EXPECT_EQ(walk(by_hub), WalkKind::kGated);
}

TEST(SearchOptions, WidthsAreRaisedToHoldK) {
  const auto dials = [](std::uint32_t k, std::uint32_t ef_l1, std::uint32_t ef_l0, WalkKind walk) {
    return Small({.k = k, .ef_l1 = ef_l1, .ef_l0 = ef_l0, .walk = walk});
  };
  EXPECT_EQ(dials(50, 8, 20, WalkKind::kPool).ef_l0, 50u);
  EXPECT_EQ(dials(50, 8, 60, WalkKind::kPool).ef_l0, 60u);
  EXPECT_EQ(dials(50, 8, 2, WalkKind::kBeams).ef_l0, 2u) << "a beam of its own each: their results together hold k";
  EXPECT_EQ(dials(50, 8, 0, WalkKind::kPool).ef_l1, 50u) << "answers from L1";
  EXPECT_EQ(dials(50, 8, 0, WalkKind::kPool).ef_l0, 0u);
  EXPECT_EQ(dials(100, 8, 0, WalkKind::kBeams).ef_l0, 0u);
  EXPECT_EQ(dials(101, 8, 0, WalkKind::kBeams).ef_l0, 101u) << "more than L1 has: L0 is searched after all";
  EXPECT_EQ(dials(10, 5000, 5000, WalkKind::kPool).ef_l1, 100u) << "no wider than the layer";
  EXPECT_EQ(dials(10, 5000, 5000, WalkKind::kPool).ef_l0, 1000u);
}

TEST(SearchOptions, ReachEndsAWalkWhereNothingElseIsSaid) {
  SearchContext disk = kByHub, ip = kByHub;
  disk.block_tier = true;
  ip.has_ratios = false;
  const auto reach = [](const SearchOptions& options, const SearchContext& context) {
    const absl::StatusOr<Dials> dials = options.Resolve(context);
    EXPECT_TRUE(dials.ok()) << dials.status();
    return dials->reach.value_or(0);
  };
  EXPECT_GT(reach({}, kByHub), 1);
  EXPECT_GT(reach({.k = 1}, kByHub), reach({.k = 10}, kByHub));
  EXPECT_GT(reach({.k = 10}, kByHub), reach({.k = 100}, kByHub));
  EXPECT_GT(reach({.walk = WalkKind::kGated}, kByHub), 1);
  EXPECT_EQ(reach({.walk = WalkKind::kGated}, disk), 0) << "cells have `stop`";
  EXPECT_EQ(reach({.walk = WalkKind::kBeams}, kByHub), 0);
  EXPECT_EQ(reach({.ef_l0 = 64}, kByHub), 0) << "a width that is given is the effort";
  EXPECT_EQ(reach({.ef_l0 = 64, .reach = 1.5f}, kByHub), 1.5f);
  EXPECT_EQ(reach({.reach = 0}, kByHub), 0);
  EXPECT_EQ(reach({}, ip), 0) << "inner products have no multiples";
  const std::uint32_t without = SearchOptions{.reach = 0}.Resolve(kByHub)->ef_l0;
  EXPECT_GT(SearchOptions{}.Resolve(kByHub)->ef_l0, without) << "room for the hardest";
  EXPECT_GT(SearchOptions{.reach = 1.3f}.Resolve(kByHub)->ef_l0, without);
  EXPECT_EQ(SearchOptions{.reach = 2}.Resolve(ip).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SearchOptions, LimitsAreInclusive) {
  EXPECT_TRUE((SearchOptions{.k = 7}.Validate(7).ok()));
  EXPECT_FALSE((SearchOptions{.k = 8}.Validate(7).ok()));
  EXPECT_FALSE((SearchOptions{.k = 0}.Validate(7).ok()));
  EXPECT_TRUE((SearchOptions{.k = 1, .ef_l1 = kMaxEf, .ef_l0 = kMaxEf, .query_threads = 64}.Validate(7).ok()));
  EXPECT_FALSE((SearchOptions{.k = kMaxEf + 1}.Validate(1u << 30).ok()));
}

TEST(SearchOptions, NothingIsDroppedSilently) {
  EXPECT_THAT(Error({.walk = WalkKind::kBeams, .reach = 2}), HasSubstr("reach: the walk beams has no such dial, only pool and gated"));
  EXPECT_THAT(Error({.walk = WalkKind::kPool, .cells = 5}), HasSubstr("cells: the walk pool has no such dial, only gated"));
  EXPECT_THAT(Error({.cells = 5}), HasSubstr("only gated: name a walk"));
  EXPECT_THAT(Error({.walk = WalkKind::kPool, .query_threads = 2}), HasSubstr("query_threads: the walk pool has no such dial, only beams"));
  EXPECT_THAT(Error({.width = 9}), HasSubstr("width: expected 1 to 8 for the pool walk, found 9"));
  EXPECT_EQ(Error({.walk = WalkKind::kPool, .cells = 0, .query_threads = 1}), "") << "what it does anyhow";
  EXPECT_EQ(Error({.walk = WalkKind::kBeams, .width = 1, .reach = 0}), "");
}

TEST(SearchOptions, ATargetStandsForAllDialsButThoseThatMayStandBesideIt) {
  EXPECT_EQ((SearchOptions{.recall = 0.9}.Validate(100)), absl::OkStatus());
  EXPECT_EQ((SearchOptions{.prefetch = Prefetch::kOff, .latency = std::chrono::microseconds(9)}.Validate(100)), absl::OkStatus());
  for (const Dial& dial : DialTable()) {
    SearchOptions options{.recall = 0.9};
    dial.ask(options, dial.least);
    EXPECT_EQ(options.Validate(100).ok(), dial.with_target) << dial.name;
    if (dial.with_target) continue;
    EXPECT_EQ(options.Validate(100).message(), "recall: expected a target or dials, found both: " + std::string(dial.name));
  }
  EXPECT_THAT(Error({.recall = 1.5}), HasSubstr("recall: expected a target in (0, 1]"));
  EXPECT_THAT(Error({.recall = std::nan("")}), HasSubstr("recall: expected a target in (0, 1]"));
  EXPECT_THAT(Error({.latency = std::chrono::nanoseconds(0)}), HasSubstr("latency_us: expected at least 1"));
  EXPECT_THAT(Error({.budget = std::chrono::nanoseconds(-1)}), HasSubstr("budget_us: expected at least 1"));
}

TEST(SearchOptions, WhatTheIndexCannotDoIsAPrecondition) {
  SearchContext plain{.n = 1000, .n1 = 100}, by_link = plain, unhelped = plain;
  by_link.has_sketches = true;
  unhelped.has_helpers = false;
  const auto code = [](const SearchOptions& options, const SearchContext& context) { return options.Resolve(context).status().code(); };
  EXPECT_EQ(code({.walk = WalkKind::kGated}, plain), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code({.walk = WalkKind::kGated}, by_link), absl::StatusCode::kOk);
  EXPECT_EQ(code({.walk = WalkKind::kGated, .cells = 1}, by_link), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code({.walk = WalkKind::kGated, .stop = 1}, by_link), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code({.ef_l0 = 0, .walk = WalkKind::kGated}, by_link), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code({.prefetch = Prefetch::kHelper}, plain), absl::StatusCode::kOk);
  EXPECT_EQ(code({.prefetch = Prefetch::kHelper}, unhelped), absl::StatusCode::kFailedPrecondition);
  unhelped.block_tier = true;
  EXPECT_EQ(code({.prefetch = Prefetch::kHelper}, unhelped), absl::StatusCode::kOk) << "a device copies by itself";
}

}  // namespace
}  // namespace hmann
