#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "hmann/param_table.h"
#include "hmann/search_params.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

constexpr SearchContext kByNode{.n = 1000000, .n1 = 160000, .has_codes = true};

/// The parameters for an index of 1,000 nodes, 100 of them promoted, without codes.
ResolvedParams Small(const SearchParams& options) {
  const absl::StatusOr<ResolvedParams> params = options.Resolve({.n = 1000, .n1 = 100});
  EXPECT_TRUE(params.ok()) << params.status();
  return params.value_or(ResolvedParams());
}

std::string Error(const SearchParams& options, const SearchContext& context = kByNode) {
  const absl::StatusOr<ResolvedParams> params = options.Resolve(context);
  return params.ok() ? "" : std::string(params.status().message());
}

TEST(SearchParams, DefaultsAreFilledIn) {
  for (const std::optional<SearchMode> mode : {std::optional<SearchMode>(),
                                               std::optional(SearchMode::kMultiStart),
                                               std::optional(SearchMode::kGraph),
                                               {SearchMode::kQuantized}}) {
    for (const std::uint32_t k : {1u, 10u, 1000u, 100000u}) {
      const absl::StatusOr<ResolvedParams> params =
          SearchParams{.k = k, .mode = mode}.Resolve(kByNode);
      ASSERT_TRUE(params.ok()) << params.status();
      EXPECT_GT(params->ef_l1, 0u);
      EXPECT_GT(params->ef_l0, 0u) << "defaults search L0";
      EXPECT_EQ(params->k, k);
      EXPECT_EQ(params->mode, mode.value_or(SearchMode::kGraph));
      EXPECT_EQ(*ParamsOf(*params).Resolve(kByNode), *params) << "what ran can be asked for";
    }
  }
}

TEST(SearchParams, CodesAreTheDefaultWhereTheyPay) {
  const auto mode = [](const SearchContext& context, std::optional<std::uint32_t> ef_l0 = {}) {
    return SearchParams{.ef_l0 = ef_l0}.Resolve(context)->mode;
  };
  const SearchContext plain{.n = 1000, .n1 = 100};
  SearchContext by_node = plain;
  by_node.has_codes = true;
  EXPECT_EQ(mode(plain), SearchMode::kGraph);
  EXPECT_EQ(mode(by_node), SearchMode::kGraph);
  by_node.far = true;
  EXPECT_EQ(mode(by_node), SearchMode::kQuantized);
  by_node.far = false;
  by_node.block_tier = true;
  EXPECT_EQ(mode(by_node), SearchMode::kQuantized);
}

TEST(SearchParams, WidthsAreRaisedToHoldK) {
  const auto params = [](std::uint32_t k, std::uint32_t ef_l1, std::uint32_t ef_l0,
                         SearchMode mode) {
    return Small({.k = k, .ef_l1 = ef_l1, .ef_l0 = ef_l0, .mode = mode});
  };
  EXPECT_EQ(params(50, 8, 20, SearchMode::kGraph).ef_l0, 50u);
  EXPECT_EQ(params(50, 8, 60, SearchMode::kGraph).ef_l0, 60u);
  EXPECT_EQ(params(50, 8, 2, SearchMode::kMultiStart).ef_l0, 2u)
      << "their results are as wide as k in any case";
  EXPECT_EQ(Small({.k = 50, .ef_l1 = 8, .mode = SearchMode::kUpper}).ef_l1, 50u);
  EXPECT_EQ(Small({.k = 100, .ef_l1 = 8, .mode = SearchMode::kUpper}).mode, SearchMode::kUpper);
  EXPECT_EQ(Small({.k = 101, .ef_l1 = 8, .mode = SearchMode::kUpper}).mode, SearchMode::kGraph)
      << "more than L1 has: L0 is searched after all";
  EXPECT_EQ(Small({.k = 101, .ef_l1 = 8, .mode = SearchMode::kUpper}).ef_l0, 101u);
  EXPECT_EQ(params(10, 5000, 5000, SearchMode::kGraph).ef_l1, 100u) << "no wider than the layer";
  EXPECT_EQ(params(10, 5000, 5000, SearchMode::kGraph).ef_l0, 1000u);
}

TEST(SearchParams, EpsilonEndsAWalkWhereNothingElseIsSaid) {
  SearchContext disk = kByNode, ip = kByNode;
  disk.block_tier = true;
  ip.has_ratios = false;
  const auto epsilon = [](const SearchParams& options, const SearchContext& context) {
    const absl::StatusOr<ResolvedParams> params = options.Resolve(context);
    EXPECT_TRUE(params.ok()) << params.status();
    return params->epsilon.value_or(-1);
  };
  EXPECT_GT(epsilon({}, kByNode), 0);
  EXPECT_GT(epsilon({.k = 1}, kByNode), epsilon({.k = 10}, kByNode));
  EXPECT_GT(epsilon({.k = 10}, kByNode), epsilon({.k = 100}, kByNode));
  EXPECT_GT(epsilon({.mode = SearchMode::kQuantized}, kByNode), 0);
  EXPECT_EQ(epsilon({.mode = SearchMode::kQuantized}, disk), -1) << "cells have `error_bound`";
  EXPECT_EQ(epsilon({.mode = SearchMode::kMultiStart}, kByNode), -1);
  EXPECT_EQ(epsilon({.ef_l0 = 64}, kByNode), -1) << "a width that is given is the ef_scale";
  EXPECT_EQ(epsilon({.ef_l0 = 64, .epsilon = 0.5f}, kByNode), 0.5f);
  EXPECT_EQ(epsilon({.epsilon = -1}, kByNode), -1);
  EXPECT_EQ(epsilon({}, ip), -1) << "inner products have no multiples";
  const std::uint32_t without = SearchParams{.epsilon = -1}.Resolve(kByNode)->ef_l0;
  EXPECT_GT(SearchParams{}.Resolve(kByNode)->ef_l0, without) << "room for the hardest";
  EXPECT_GT(SearchParams{.epsilon = 0.3f}.Resolve(kByNode)->ef_l0, without);
  EXPECT_EQ(SearchParams{.epsilon = 1}.Resolve(ip).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SearchParams, LimitsAreInclusive) {
  EXPECT_TRUE((SearchParams{.k = 7}.Validate(7).ok()));
  EXPECT_FALSE((SearchParams{.k = 8}.Validate(7).ok()));
  EXPECT_FALSE((SearchParams{.k = 0}.Validate(7).ok()));
  EXPECT_TRUE((SearchParams{.k = 1, .ef_l1 = kMaxEf, .ef_l0 = kMaxEf, .query_threads = 64}
                   .Validate(7)
                   .ok()));
  EXPECT_FALSE((SearchParams{.k = kMaxEf + 1}.Validate(1u << 30).ok()));
}

TEST(SearchParams, NothingIsDroppedSilently) {
  EXPECT_THAT(
      Error({.mode = SearchMode::kMultiStart, .epsilon = 1}),
      HasSubstr("epsilon: the mode multi-start has no such parameter, only graph and quantized"));
  EXPECT_THAT(Error({.mode = SearchMode::kGraph, .nprobe = 5}),
              HasSubstr("nprobe: the mode graph has no such parameter, only quantized"));
  EXPECT_THAT(Error({.nprobe = 5}), HasSubstr("only quantized: name a mode"));
  EXPECT_THAT(Error({.mode = SearchMode::kGraph, .query_threads = 2}),
              HasSubstr("query_threads: the mode graph has no such parameter, only multi-start"));
  EXPECT_THAT(Error({.beam_width = 9}),
              HasSubstr("beam_width: expected 1 to 8 for the graph mode, found 9"));
  EXPECT_EQ(Error({.mode = SearchMode::kGraph, .nprobe = 0, .query_threads = 1}), "")
      << "what it does anyhow";
  EXPECT_EQ(Error({.mode = SearchMode::kMultiStart, .beam_width = 1, .epsilon = -1}), "");
}

TEST(SearchParams, ATargetStandsForAllParamsButThoseThatMayStandBesideIt) {
  EXPECT_EQ((SearchParams{.recall = 0.9}.Validate(100)), absl::OkStatus());
  EXPECT_EQ(
      (SearchParams{.prefetch = Prefetch::kOff, .latency = std::chrono::microseconds(9)}.Validate(
          100)),
      absl::OkStatus());
  for (const ParamInfo& param : ParamTable()) {
    SearchParams options{.recall = 0.9};
    param.ask(options, param.least);
    EXPECT_EQ(options.Validate(100).ok(), param.with_target) << param.name;
    if (param.with_target) continue;
    EXPECT_EQ(options.Validate(100).message(),
              "recall: expected a target or parameters, found both: " + std::string(param.name));
  }
  EXPECT_THAT(Error({.recall = 1.5}), HasSubstr("recall: expected a target in (0, 1]"));
  EXPECT_THAT(Error({.recall = std::nan("")}), HasSubstr("recall: expected a target in (0, 1]"));
  EXPECT_THAT(Error({.latency = std::chrono::nanoseconds(0)}),
              HasSubstr("latency_us: expected at least 1"));
  EXPECT_THAT(Error({.budget = std::chrono::nanoseconds(-1)}),
              HasSubstr("budget_us: expected at least 1"));
}

TEST(SearchParams, WhatTheIndexCannotDoIsAPrecondition) {
  const SearchContext plain{.n = 1000, .n1 = 100};
  const auto code = [](const SearchParams& options, const SearchContext& context) {
    return options.Resolve(context).status().code();
  };
  EXPECT_EQ(code({.mode = SearchMode::kQuantized}, plain), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code({.ef_l0 = 0, .mode = SearchMode::kQuantized, .nprobe = 1}, kByNode),
            absl::StatusCode::kOk);
}

}  // namespace
}  // namespace hmann
