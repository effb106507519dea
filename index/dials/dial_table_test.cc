#include "hmann/dial_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "index/dials/dials_json.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(DialTable, NamesAreDistinctAndEachDialHasAPlaceOfItsOwn) {
  std::set<std::string_view> names;
  for (const Dial& dial : DialTable()) {
    SCOPED_TRACE(dial.name);
    EXPECT_TRUE(names.insert(dial.name).second);
    EXPECT_EQ(FindDial(dial.name), &dial);
    EXPECT_FALSE(dial.help.empty());
    SearchOptions options;
    Dials dials;
    EXPECT_FALSE(dial.asked(options).has_value());
    const double value = dial.most;
    dial.ask(options, value);
    dial.set(dials, value);
    EXPECT_EQ(dial.asked(options), value);
    EXPECT_EQ(dial.running(dials), value);
    for (const Dial& other : DialTable()) {
      if (&other == &dial) continue;
      EXPECT_FALSE(other.asked(options).has_value()) << other.name;
      EXPECT_EQ(other.running(dials), other.running(Dials())) << other.name;
    }
  }
  EXPECT_EQ(FindDial("ef"), nullptr);
}

TEST(DialTable, RangesAreInclusiveAndNothingElseIsTaken) {
  for (const Dial& dial : DialTable()) {
    SCOPED_TRACE(dial.name);
    EXPECT_TRUE(dial.Check(dial.least).ok());
    EXPECT_TRUE(dial.Check(dial.most).ok());
    EXPECT_EQ(dial.Check(0).ok(), dial.least == 0);
    EXPECT_EQ(dial.Check(-1).ok(), dial.off == -1);
    EXPECT_EQ(dial.Check(dial.least + 0.5).ok(), !dial.whole);
    for (const double wrong : {-2.0, dial.most + 1, std::nan(""), -std::nan("")}) {
      EXPECT_FALSE(dial.Check(wrong).ok()) << wrong;
      EXPECT_THAT(std::string(dial.Check(wrong).message()),
                  StartsWith(std::string(dial.name) + ": expected "));
    }
    EXPECT_FALSE(dial.Parse("").ok());
    EXPECT_FALSE(dial.Parse("five").ok());
    EXPECT_FALSE(dial.Parse("-2").ok());
  }
  EXPECT_FALSE(FindDial("epsilon")->Check(-0.5).ok()) << "between off and on";
  EXPECT_EQ(FindDial("beam_width")->Check(65).message(), "beam_width: expected 1 to 64, found 65");
  EXPECT_EQ(FindDial("ef_l0")->Check(-1).message(), "ef_l0: expected 0 to 1048576, found -1");
  EXPECT_EQ(FindDial("walk")->Parse("gate").status().message(),
            "walk: expected multi-start, best-first, quantised, upper, found 'gate'");
}

TEST(DialTable, WhatIsWrittenIsRead) {
  for (const WalkKind walk : {WalkKind::kMultiStart, WalkKind::kBestFirst, WalkKind::kQuantised}) {
    Dials dials;
    dials.k = 10;
    for (const Dial& dial : DialTable()) {
      if (dial.walks.Contains(walk)) dial.set(dials, dial.whole ? 3 : 1.1f);
    }
    dials.walk = walk;
    dials.prefetch = Prefetch::kHelper;
    const nlohmann::ordered_json json = ToJson(dials);
    SearchOptions options;
    ASSERT_TRUE(AskFromJson(json, &options).ok());
    for (const Dial& dial : DialTable()) {
      SCOPED_TRACE(dial.name);
      EXPECT_EQ(json.contains(std::string(dial.name)), dial.walks.Contains(walk));
      EXPECT_EQ(dial.asked(options), Running(dial, dials));
      if (const auto value = Running(dial, dials); value.has_value()) {
        EXPECT_EQ(dial.Parse(dial.Text(*value)).value_or(-1), *value);
      }
    }
    EXPECT_EQ(OptionsOf(dials).epsilon, options.epsilon);
    EXPECT_THAT(DescribeDials(dials), StartsWith(std::string(Name(walk)) + " ef_l1 3 ef_l0 3 "));
  }
}

TEST(DialTable, JsonOfAnotherTypeIsNamed) {
  SearchOptions options;
  const auto error = [&](const nlohmann::json& json) {
    return std::string(AskFromJson(json, &options).message());
  };
  EXPECT_THAT(error({{"walk", 1}}), HasSubstr("walk: expected a text, found 1"));
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
