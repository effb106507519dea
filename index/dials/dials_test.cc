#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "hmann/dial_table.h"
#include "hmann/search_options.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

constexpr SearchContext kByNode{.n = 1000000, .n1 = 160000, .has_codes = true};

/// Of an index of 1,000 nodes, 100 of them promoted, without codes.
Dials Small(const SearchOptions& options) {
  const absl::StatusOr<Dials> dials = options.Resolve({.n = 1000, .n1 = 100});
  EXPECT_TRUE(dials.ok()) << dials.status();
  return dials.value_or(Dials());
}

std::string Error(const SearchOptions& options, const SearchContext& context = kByNode) {
  const absl::StatusOr<Dials> dials = options.Resolve(context);
  return dials.ok() ? "" : std::string(dials.status().message());
}

TEST(SearchOptions, DefaultsAreFilledIn) {
  for (const std::optional<WalkKind> walk : {std::optional<WalkKind>(),
                                             std::optional(WalkKind::kMultiStart),
                                             std::optional(WalkKind::kBestFirst),
                                             {WalkKind::kQuantised}}) {
    for (const std::uint32_t k : {1u, 10u, 1000u, 100000u}) {
      const absl::StatusOr<Dials> dials = SearchOptions{.k = k, .walk = walk}.Resolve(kByNode);
      ASSERT_TRUE(dials.ok()) << dials.status();
      EXPECT_GT(dials->ef_l1, 0u);
      EXPECT_GT(dials->ef_l0, 0u) << "defaults search L0";
      EXPECT_EQ(dials->k, k);
      EXPECT_EQ(dials->walk, walk.value_or(WalkKind::kBestFirst));
      EXPECT_EQ(*OptionsOf(*dials).Resolve(kByNode), *dials) << "what ran can be asked for";
    }
  }
}

TEST(SearchOptions, CodesAreTheDefaultWhereTheyPay) {
  const auto walk = [](const SearchContext& context, std::optional<std::uint32_t> ef_l0 = {}) {
    return SearchOptions{.ef_l0 = ef_l0}.Resolve(context)->walk;
  };
  const SearchContext plain{.n = 1000, .n1 = 100};
  SearchContext by_node = plain;
  by_node.has_codes = true;
  EXPECT_EQ(walk(plain), WalkKind::kBestFirst);
  EXPECT_EQ(walk(by_node), WalkKind::kBestFirst);
  by_node.far = true;
  EXPECT_EQ(walk(by_node), WalkKind::kQuantised);
  by_node.far = false;
  by_node.block_tier = true;
  EXPECT_EQ(walk(by_node), WalkKind::kQuantised);
}

TEST(SearchOptions, WidthsAreRaisedToHoldK) {
  const auto dials = [](std::uint32_t k, std::uint32_t ef_l1, std::uint32_t ef_l0, WalkKind walk) {
    return Small({.k = k, .ef_l1 = ef_l1, .ef_l0 = ef_l0, .walk = walk});
  };
  EXPECT_EQ(dials(50, 8, 20, WalkKind::kBestFirst).ef_l0, 50u);
  EXPECT_EQ(dials(50, 8, 60, WalkKind::kBestFirst).ef_l0, 60u);
  EXPECT_EQ(dials(50, 8, 2, WalkKind::kMultiStart).ef_l0, 2u)
      << "a beam of its own each: their results together hold k";
  EXPECT_EQ(Small({.k = 50, .ef_l1 = 8, .walk = WalkKind::kUpper}).ef_l1, 50u);
  EXPECT_EQ(Small({.k = 100, .ef_l1 = 8, .walk = WalkKind::kUpper}).walk, WalkKind::kUpper);
  EXPECT_EQ(Small({.k = 101, .ef_l1 = 8, .walk = WalkKind::kUpper}).walk, WalkKind::kBestFirst)
      << "more than L1 has: L0 is searched after all";
  EXPECT_EQ(Small({.k = 101, .ef_l1 = 8, .walk = WalkKind::kUpper}).ef_l0, 101u);
  EXPECT_EQ(dials(10, 5000, 5000, WalkKind::kBestFirst).ef_l1, 100u) << "no wider than the layer";
  EXPECT_EQ(dials(10, 5000, 5000, WalkKind::kBestFirst).ef_l0, 1000u);
}

TEST(SearchOptions, EpsilonEndsAWalkWhereNothingElseIsSaid) {
  SearchContext disk = kByNode, ip = kByNode;
  disk.block_tier = true;
  ip.has_ratios = false;
  const auto epsilon = [](const SearchOptions& options, const SearchContext& context) {
    const absl::StatusOr<Dials> dials = options.Resolve(context);
    EXPECT_TRUE(dials.ok()) << dials.status();
    return dials->epsilon.value_or(-1);
  };
  EXPECT_GT(epsilon({}, kByNode), 0);
  EXPECT_GT(epsilon({.k = 1}, kByNode), epsilon({.k = 10}, kByNode));
  EXPECT_GT(epsilon({.k = 10}, kByNode), epsilon({.k = 100}, kByNode));
  EXPECT_GT(epsilon({.walk = WalkKind::kQuantised}, kByNode), 0);
  EXPECT_EQ(epsilon({.walk = WalkKind::kQuantised}, disk), -1) << "cells have `error_bound`";
  EXPECT_EQ(epsilon({.walk = WalkKind::kMultiStart}, kByNode), -1);
  EXPECT_EQ(epsilon({.ef_l0 = 64}, kByNode), -1) << "a width that is given is the effort";
  EXPECT_EQ(epsilon({.ef_l0 = 64, .epsilon = 0.5f}, kByNode), 0.5f);
  EXPECT_EQ(epsilon({.epsilon = -1}, kByNode), -1);
  EXPECT_EQ(epsilon({}, ip), -1) << "inner products have no multiples";
  const std::uint32_t without = SearchOptions{.epsilon = -1}.Resolve(kByNode)->ef_l0;
  EXPECT_GT(SearchOptions{}.Resolve(kByNode)->ef_l0, without) << "room for the hardest";
  EXPECT_GT(SearchOptions{.epsilon = 0.3f}.Resolve(kByNode)->ef_l0, without);
  EXPECT_EQ(SearchOptions{.epsilon = 1}.Resolve(ip).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SearchOptions, LimitsAreInclusive) {
  EXPECT_TRUE((SearchOptions{.k = 7}.Validate(7).ok()));
  EXPECT_FALSE((SearchOptions{.k = 8}.Validate(7).ok()));
  EXPECT_FALSE((SearchOptions{.k = 0}.Validate(7).ok()));
  EXPECT_TRUE((SearchOptions{.k = 1, .ef_l1 = kMaxEf, .ef_l0 = kMaxEf, .query_threads = 64}
                   .Validate(7)
                   .ok()));
  EXPECT_FALSE((SearchOptions{.k = kMaxEf + 1}.Validate(1u << 30).ok()));
}

TEST(SearchOptions, NothingIsDroppedSilently) {
  EXPECT_THAT(
      Error({.walk = WalkKind::kMultiStart, .epsilon = 1}),
      HasSubstr("epsilon: the walk multi-start has no such dial, only best-first and quantised"));
  EXPECT_THAT(Error({.walk = WalkKind::kBestFirst, .nprobe = 5}),
              HasSubstr("nprobe: the walk best-first has no such dial, only quantised"));
  EXPECT_THAT(Error({.nprobe = 5}), HasSubstr("only quantised: name a walk"));
  EXPECT_THAT(Error({.walk = WalkKind::kBestFirst, .query_threads = 2}),
              HasSubstr("query_threads: the walk best-first has no such dial, only multi-start"));
  EXPECT_THAT(Error({.beam_width = 9}),
              HasSubstr("beam_width: expected 1 to 8 for the best-first walk, found 9"));
  EXPECT_EQ(Error({.walk = WalkKind::kBestFirst, .nprobe = 0, .query_threads = 1}), "")
      << "what it does anyhow";
  EXPECT_EQ(Error({.walk = WalkKind::kMultiStart, .beam_width = 1, .epsilon = -1}), "");
}

TEST(SearchOptions, ATargetStandsForAllDialsButThoseThatMayStandBesideIt) {
  EXPECT_EQ((SearchOptions{.recall = 0.9}.Validate(100)), absl::OkStatus());
  EXPECT_EQ(
      (SearchOptions{.prefetch = Prefetch::kOff, .latency = std::chrono::microseconds(9)}.Validate(
          100)),
      absl::OkStatus());
  for (const Dial& dial : DialTable()) {
    SearchOptions options{.recall = 0.9};
    dial.ask(options, dial.least);
    EXPECT_EQ(options.Validate(100).ok(), dial.with_target) << dial.name;
    if (dial.with_target) continue;
    EXPECT_EQ(options.Validate(100).message(),
              "recall: expected a target or dials, found both: " + std::string(dial.name));
  }
  EXPECT_THAT(Error({.recall = 1.5}), HasSubstr("recall: expected a target in (0, 1]"));
  EXPECT_THAT(Error({.recall = std::nan("")}), HasSubstr("recall: expected a target in (0, 1]"));
  EXPECT_THAT(Error({.latency = std::chrono::nanoseconds(0)}),
              HasSubstr("latency_us: expected at least 1"));
  EXPECT_THAT(Error({.budget = std::chrono::nanoseconds(-1)}),
              HasSubstr("budget_us: expected at least 1"));
}

TEST(SearchOptions, WhatTheIndexCannotDoIsAPrecondition) {
  SearchContext plain{.n = 1000, .n1 = 100}, unhelped = plain;
  unhelped.has_helpers = false;
  const auto code = [](const SearchOptions& options, const SearchContext& context) {
    return options.Resolve(context).status().code();
  };
  EXPECT_EQ(code({.walk = WalkKind::kQuantised}, plain), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code({.ef_l0 = 0, .walk = WalkKind::kQuantised, .nprobe = 1}, kByNode),
            absl::StatusCode::kOk);
  EXPECT_EQ(code({.prefetch = Prefetch::kHelper}, plain), absl::StatusCode::kOk);
  EXPECT_EQ(code({.prefetch = Prefetch::kHelper}, unhelped), absl::StatusCode::kFailedPrecondition);
  unhelped.block_tier = true;
  EXPECT_EQ(code({.prefetch = Prefetch::kHelper}, unhelped), absl::StatusCode::kOk)
      << "a device copies by itself";
}

}  // namespace
}  // namespace hmann
