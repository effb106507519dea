/// Types of attributes and times.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "hmann/attributes.h"

namespace hmann {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(AttributeTypes, HaveNames) {
  EXPECT_EQ(AttributeTypeName(AttributeType::kTag), "tag");
  EXPECT_EQ(AttributeTypeName(AttributeType::kIntTag), "int-tag");
  EXPECT_EQ(AttributeTypeName(AttributeType::kInt64), "int64");
  EXPECT_EQ(AttributeTypeName(AttributeType::kFloat64), "float64");
  EXPECT_EQ(AttributeTypeName(AttributeType::kTime), "time");
  EXPECT_EQ(AttributeTypeName(AttributeType::kBool), "bool");
}

TEST(AttributeFields, AreParsed) {
  EXPECT_THAT(*ParseAttributeFields("year:int64,tags:tag"),
              ElementsAre(AttributeField{"year", AttributeType::kInt64},
                          AttributeField{"tags", AttributeType::kTag}));
  EXPECT_THAT(*ParseAttributeFields("dc:date:time"),
              ElementsAre(AttributeField{"dc:date", AttributeType::kTime}));
  for (const char* type : {"tag", "int-tag", "int64", "float64", "time", "bool"}) {
    const auto fields = ParseAttributeFields(absl::StrCat("x:", type));
    ASSERT_TRUE(fields.ok()) << fields.status();
    EXPECT_EQ(AttributeTypeName((*fields)[0].type), type);
  }
  EXPECT_TRUE(ParseAttributeFields(absl::StrCat(std::string(256, 'x'), ":tag")).ok());
}

TEST(AttributeFields, WhatIsNoneIsRefused) {
  const std::string longest = absl::StrCat(std::string(257, 'x'), ":tag");
  std::string many;
  for (int i = 0; i <= 1000; ++i) absl::StrAppend(&many, i == 0 ? "" : ",", "f", i, ":tag");
  const std::pair<std::string, const char*> cases[] = {
      {"", "expected NAME:TYPE, found \"\""},
      {"year", "expected NAME:TYPE, found \"year\""},
      {"year:int64,", "expected NAME:TYPE, found \"\""},
      {":int64", "expected a name of 1 to 256 bytes of UTF-8 for a field, found \"\""},
      {"year:int",
       "year: expected one of the types tag, int-tag, int64, float64, time, bool, found \"int\""},
      {"year: int64", "found \" int64\""},
      {"year:int64,year:tag", "year: expected one type, found two"},
      {"a:tag,label:tag", "label: expected no type, since it is the label of a row, found one"},
      {longest, "(257 bytes)"},
      {"\xff:tag", "bytes of UTF-8"},
      {"\xed\xa0\x80:tag", "bytes of UTF-8"},
      {"\xc0\xaf:tag", "bytes of UTF-8"},
      {"\xf4\x90\x80\x80:tag", "bytes of UTF-8"},
      {"\xe2\x82:tag", "bytes of UTF-8"},
      {many, "expected at most 1000 fields, found 1001"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = ParseAttributeFields(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(AttributeTime, IsParsed) {
  const std::pair<const char*, std::int64_t> cases[] = {
      {"1970-01-01", 0},
      {"1970-01-02", 86'400'000'000},
      {"1969-12-31", -86'400'000'000},
      {"2026-05-01", 1'777'593'600'000'000},
      {"2026-05-01T12:00:00Z", 1'777'636'800'000'000},
      {"2026-05-01t12:00:00z", 1'777'636'800'000'000},
      {"2026-05-01T14:00:00+02:00", 1'777'636'800'000'000},
      {"2026-05-01T06:30:00-05:30", 1'777'636'800'000'000},
      {"2026-05-01T12:00:00.25Z", 1'777'636'800'250'000},
      {"2026-05-01T12:00:00.123456789Z", 1'777'636'800'123'456},
      {"1969-12-31T23:59:59.9999999Z", -1},
      {"2024-02-29", 1'709'164'800'000'000},
      {"0000-01-01", -62'167'219'200'000'000},
      {"9999-12-31T23:59:59.999999Z", 253'402'300'799'999'999},
  };
  for (const auto& [text, microseconds] : cases) {
    const absl::StatusOr<std::int64_t> time = ParseAttributeTime(text);
    ASSERT_TRUE(time.ok()) << time.status();
    EXPECT_EQ(*time, microseconds) << text;
  }
}

TEST(AttributeTime, WhatIsNoneIsRefused) {
  const std::string cases[] = {"",
                               " ",
                               "2026",
                               "2026-5-1",
                               "2026-13-01",
                               "2026-00-01",
                               "2026-04-31",
                               "2026-02-29",
                               "2026-05-01 ",
                               " 2026-05-01",
                               "+2026-05-01",
                               "12026-05-01",
                               "-026-05-01",
                               "2026-05-01Z",
                               "2026-05-01T12:00:00",
                               "2026-05-01T12:00Z",
                               "2026-05-01T24:00:00Z",
                               "2026-05-01T12:60:00Z",
                               "2026-12-31T23:59:60Z",
                               "2026-05-01T12:00:61Z",
                               "2026-05-01T12:00:00.Z",
                               "2026-05-01T12:00:00,5Z",
                               "2026-05-01T12:00:00+2:00",
                               "2026-05-01T12:00:00+0200",
                               "2026-05-01T12:00:00+24:00",
                               "2026-05-01T12:00:00+02:60",
                               "2026-05-01T12:00:00ZZ",
                               "2026-05-01T12:00:00.5",
                               "infinite-future",
                               "now",
                               "yesterday",
                               std::string("2026-05-01\0", 11),
                               "1777593600"};
  for (const std::string& text : cases) {
    const absl::Status status = ParseAttributeTime(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("expected a time such as 2026-05-01 or 2026-05-01T12:00:00Z, found \""));
  }
}

}  // namespace
}  // namespace hmann
