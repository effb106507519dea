#include "hmann/param_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "index/params/params_json.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ParamTable, NamesAreDistinctAndEachParamHasAPlaceOfItsOwn) {
  std::set<std::string_view> names;
  for (const ParamInfo& param : ParamTable()) {
    SCOPED_TRACE(param.name);
    EXPECT_TRUE(names.insert(param.name).second);
    EXPECT_EQ(FindParam(param.name), &param);
    EXPECT_FALSE(param.help.empty());
    SearchParams options;
    ResolvedParams params;
    EXPECT_FALSE(param.requested(options).has_value());
    const double value = param.most;
    param.ask(options, value);
    param.set(params, value);
    EXPECT_EQ(param.requested(options), value);
    EXPECT_EQ(param.running(params), value);
    for (const ParamInfo& other : ParamTable()) {
      if (&other == &param) continue;
      EXPECT_FALSE(other.requested(options).has_value()) << other.name;
      EXPECT_EQ(other.running(params), other.running(ResolvedParams())) << other.name;
    }
  }
  EXPECT_EQ(FindParam("ef"), nullptr);
}

TEST(ParamTable, RangesAreInclusiveAndNothingElseIsTaken) {
  for (const ParamInfo& param : ParamTable()) {
    SCOPED_TRACE(param.name);
    EXPECT_TRUE(param.Check(param.least).ok());
    EXPECT_TRUE(param.Check(param.most).ok());
    EXPECT_EQ(param.Check(0).ok(), param.least <= 0);
    EXPECT_EQ(param.Check(-1).ok(), param.off == -1);
    EXPECT_EQ(param.Check(param.least + 0.5).ok(), !param.whole);
    for (const double wrong : {-2.0, param.most + 1, std::nan(""), -std::nan("")}) {
      EXPECT_FALSE(param.Check(wrong).ok()) << wrong;
      EXPECT_THAT(std::string(param.Check(wrong).message()),
                  StartsWith(std::string(param.name) + ": expected "));
    }
    EXPECT_FALSE(param.Parse("").ok());
    EXPECT_FALSE(param.Parse("five").ok());
    EXPECT_FALSE(param.Parse("-2").ok());
  }
  EXPECT_FALSE(FindParam("epsilon")->Check(-0.6).ok()) << "between off and on";
  EXPECT_EQ(FindParam("beam_width")->Check(65).message(), "beam_width: expected 1 to 64, found 65");
  EXPECT_EQ(FindParam("ef_l0")->Check(-1).message(), "ef_l0: expected 0 to 1048576, found -1");
  EXPECT_EQ(FindParam("mode")->Parse("gate").status().message(),
            "mode: expected multi-start, graph, quantized, upper, scan, found 'gate'");
}

TEST(ParamTable, WhatIsWrittenIsRead) {
  for (const SearchMode mode :
       {SearchMode::kMultiStart, SearchMode::kGraph, SearchMode::kQuantized}) {
    ResolvedParams params;
    params.k = 10;
    for (const ParamInfo& param : ParamTable()) {
      if (param.modes.Contains(mode)) param.set(params, param.whole ? 3 : 1.1f);
    }
    params.mode = mode;
    params.prefetch = Prefetch::kOff;
    const nlohmann::ordered_json json = ToJson(params);
    SearchParams options;
    ASSERT_TRUE(ParamsFromJson(json, &options).ok());
    for (const ParamInfo& param : ParamTable()) {
      SCOPED_TRACE(param.name);
      EXPECT_EQ(json.contains(std::string(param.name)), param.modes.Contains(mode));
      EXPECT_EQ(param.requested(options), Running(param, params));
      if (const auto value = Running(param, params); value.has_value()) {
        EXPECT_EQ(param.Parse(param.Text(*value)).value_or(-1), *value);
      }
    }
    EXPECT_EQ(ParamsOf(params).epsilon, options.epsilon);
    EXPECT_THAT(DescribeParams(params), StartsWith(std::string(Name(mode)) + " ef_l1 3 ef_l0 3 "));
  }
}

TEST(ParamTable, JsonOfAnotherTypeIsNamed) {
  SearchParams options;
  const auto error = [&](const nlohmann::json& json) {
    return std::string(ParamsFromJson(json, &options).message());
  };
  EXPECT_THAT(error({{"mode", 1}}), HasSubstr("mode: expected a text, found 1"));
  EXPECT_THAT(error({{"beam_width", "8"}}),
              HasSubstr("beam_width: expected a number, found \"8\""));
  EXPECT_THAT(error({{"beam_width", 8.5}}), HasSubstr("beam_width: expected 1 to 64, found 8.5"));
  EXPECT_THAT(error({{"error_bound", -1}}),
              HasSubstr("error_bound: expected 0 to 1000000, found -1"));
  EXPECT_EQ(error({{"error_bound", 1.5}, {"something", "else"}}), "");
  EXPECT_EQ(options.error_bound, 1.5f);
}

}  // namespace
}  // namespace hmann
