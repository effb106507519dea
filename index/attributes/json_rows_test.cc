// Rows of attributes as JSON objects, there and back.
#include "index/attributes/json_rows.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "index/attributes/testing/sample_attrs.h"

namespace hmann {
namespace {

std::vector<AttributeField> SampleFields() {
  return ParseAttributeFields("year:int64,price:float64,sold:bool,made:time,tag:tag,number:int-tag")
      .value();
}

TEST(JsonRows, AreReadAndWritten) {
  const std::vector<AttributeField> fields = SampleFields();
  auto rows = JsonRows::Of(fields);
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<AttributeCell> cells, again;
  for (const SampleRow& sample : MakeSampleRows(500, 3)) {
    ASSERT_TRUE(rows->Read(SampleJson(sample), &cells).ok());
    SampleRow found;
    for (const AttributeCell& cell : cells) found[fields[cell.field].name].push_back(cell.value);
    EXPECT_TRUE(found == sample);
    EXPECT_TRUE(std::is_sorted(cells.begin(), cells.end()));
    ASSERT_TRUE(rows->Read(JsonOf(fields, cells), &again).ok());
    EXPECT_TRUE(again == cells) << JsonOf(fields, cells);
  }
}

TEST(JsonRows, KeepExtremeValues) {
  const std::vector<AttributeField> fields = SampleFields();
  auto rows = JsonRows::Of(fields);
  ASSERT_TRUE(rows.ok()) << rows.status();
  using Whole = std::numeric_limits<std::int64_t>;
  using Real = std::numeric_limits<double>;
  std::vector<AttributeCell> again;
  for (const std::int64_t whole :
       {Whole::min(), Whole::max(), std::int64_t{0}, std::int64_t{-1},
        std::int64_t{1'777'000'000'123'456}, -62'167'219'200'000'000, -62'167'219'200'000'001,
        253'402'300'799'999'999, 253'402'300'800'000'000}) {
    for (const double real : {Real::lowest(), Real::denorm_min(), -0.0, 1e15, 0.1, 3.0}) {
      const std::vector<AttributeCell> cells = {
          {0, whole}, {1, real}, {3, whole}, {4, ""}, {4, "\"\n\xC3\xBC\x01"}, {5, whole}};
      const absl::Status read = rows->Read(JsonOf(fields, cells), &again);
      ASSERT_TRUE(read.ok()) << read;
      EXPECT_TRUE(again == cells) << JsonOf(fields, cells);
    }
  }
  EXPECT_EQ(JsonOf(fields, std::vector<AttributeCell>{{2, true}, {3, std::int64_t{1'500'000}}}),
            "{\"sold\":true,\"made\":\"1970-01-01T00:00:01.5Z\"}");
  EXPECT_EQ(JsonOf(fields, {}), "{}");
  ASSERT_TRUE(rows->Read("{}", &again).ok());
  EXPECT_TRUE(again.empty());
  ASSERT_TRUE(rows->Read(R"({"tag": "one", "price": 3, "year": null})", &again).ok());
  EXPECT_TRUE((again == std::vector<AttributeCell>{{1, 3.0}, {4, "one"}}));
}

TEST(JsonRows, WhatIsWrongIsNamed) {
  auto rows = JsonRows::Of(SampleFields());
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<AttributeCell> cells;
  for (const auto& [text, error] : {
           std::pair(R"({"year": 1.5})", "year: expected an integer of 64 bits, found 1.5"),
           std::pair(R"({"made": "soon"})",
                     "made: expected a time such as 2026-05-01 or 2026-05-01T12:00:00Z, found "
                     "\"soon\""),
           std::pair(R"({"label": 3})", "label: expected none among attributes, found one"),
           std::pair(R"({"sold": true, "sold": true})",
                     "sold: expected a key once in an object, found it twice"),
           std::pair("[1]", "expected an object, found \"[1]\""),
           std::pair("", "expected an object, found a blank line"),
           std::pair("{\"year\": 1", "expected JSON at byte 11 of the line, found \"1\""),
       }) {
    const absl::Status read = rows->Read(text, &cells);
    EXPECT_EQ(read.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(read.message(), absl::StrCat("attributes: ", error));
  }
  EXPECT_FALSE(JsonRows::Of({{"label", AttributeType::kTag}}).ok());
  EXPECT_FALSE(JsonRows::Of({{"a", AttributeType::kTag}, {"a", AttributeType::kTag}}).ok());
}

}  // namespace
}  // namespace hmann
