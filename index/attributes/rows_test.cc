/// Attributes in NDJSON and CSV.
#include "index/attributes/rows.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "datasets/testing/temp_folder.h"
#include "gmock/gmock.h"
#include "index/base/json_reader.h"
#include "index/base/random.h"

namespace hmann {
namespace {

using testing::HasSubstr;

/// "7", "f7", "'7'" or "true", so that a value's type shows.
std::string ShownInRow(const FilterValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return absl::StrCat(*whole);
  if (const auto* number = std::get_if<double>(&value)) return absl::StrCat("f", *number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return absl::StrCat("'", std::get<std::string>(value), "'");
}

/// "year:int64 tags:tag | 0 year=1 tags='a' tags='b' | 1": the fields, then each row with
/// its label. An error is its message, with FILE for the path.
std::string ReadRowsOf(const std::string& path, const std::string& types = "") {
  std::vector<AttributeField> given;
  if (!types.empty()) given = ParseAttributeFields(types).value();
  const auto told = [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    const std::string message(status.message());
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    return "FILE" + message.substr(std::min(message.size(), path.size()));
  };
  const auto rows = AttributeRows::Open(path, given);
  if (!rows.ok()) return told(rows.status());
  std::string out;
  for (const AttributeField& field : (*rows)->fields()) {
    const std::string type(AttributeTypeName(field.type));
    absl::StrAppend(&out, out.empty() ? "" : " ", field.name, ":", type);
  }
  std::uint64_t next = 0;
  const absl::Status read = (*rows)->ForEach([&](std::uint64_t row, std::uint64_t label,
                                                 std::span<const AttributeCell> cells) {
    EXPECT_EQ(row, next++);
    absl::StrAppend(&out, " | ", label);
    for (const AttributeCell& cell : cells)
      absl::StrAppend(&out, " ", (*rows)->fields()[cell.field].name, "=", ShownInRow(cell.value));
    return absl::OkStatus();
  });
  EXPECT_EQ(next, (*rows)->rows());
  return read.ok() ? out : told(read);
}

std::string ReadNdjson(const std::string& text, const std::string& types = "") {
  const TempFolder folder;
  return ReadRowsOf(folder.Write("a.ndjson", text), types);
}
std::string ReadCsv(const std::string& text, const std::string& types = "") {
  const TempFolder folder;
  return ReadRowsOf(folder.Write("a.csv", text), types);
}

struct ReadCase {
  std::string text;
  std::string types;
  std::string read;
};

TEST(NdjsonRows, TypesAreInferred) {
  const ReadCase cases[] = {
      {"{\"a\": 1}\n{\"a\": -9223372036854775808}\n{\"a\": 9223372036854775807}\n", "",
       "a:int64 | 0 a=1 | 1 a=-9223372036854775808 | 2 a=9223372036854775807"},
      {"{\"a\": 1}\n{\"a\": 2.5}\n", "", "a:float64 | 0 a=f1 | 1 a=f2.5"},
      {"{\"a\": 1e3}\n", "", "a:float64 | 0 a=f1000"},
      {"{\"a\": 1.0}\n{\"a\": 7}\n", "", "a:float64 | 0 a=f1 | 1 a=f7"},
      {"{\"a\": true}\n{\"a\": null}\n{\"a\": false}\n", "", "a:bool | 0 a=true | 1 | 2 a=false"},
      {"{\"a\": \"x\"}\n{}\n{\"a\": \"\"}\n", "", "a:tag | 0 a='x' | 1 | 2 a=''"},
      {"{\"a\": [\"x\", \"b\", \"x\"]}\n{\"a\": []}\n{\"a\": \"c\"}\n", "",
       "a:tag | 0 a='b' a='x' | 1 | 2 a='c'"},
      {"{\"a\": 5}\n{\"a\": [3, -1, 3]}\n{\"a\": []}\n", "", "a:int-tag | 0 a=5 | 1 a=-1 a=3 | 2"},
      {"{\"a\": []}\n{\"a\": 5}\n", "", "a:int-tag | 0 | 1 a=5"},
      {"{\"a\": null}\n{\"b\": []}\n", "", "a:tag b:tag | 0 | 1"},
      {"{\"b\": 1, \"a\": \"x\"}\n{\"a\": \"y\", \"b\": 2}\n", "",
       "b:int64 a:tag | 0 b=1 a='x' | 1 b=2 a='y'"},
      {"{\"2026\": \"2026-05-01\"}\n", "", "2026:tag | 0 2026='2026-05-01'"},
      {"{\"a\": -0}\n", "", "a:int64 | 0 a=0"},
      {" { \"a\" : [ \"\\u00e9\" , \"\\n\" ] } \n", "", "a:tag | 0 a='\n' a='\u00e9'"},
      {"{}\n{}\n", "", " | 0 | 1"},
  };
  for (const ReadCase& c : cases) EXPECT_EQ(ReadNdjson(c.text, c.types), c.read) << c.text;
}

TEST(NdjsonRows, GivenTypesConvert) {
  const ReadCase cases[] = {
      {"{\"a\": 1}\n{\"a\": 1.50}\n{\"a\": true}\n{\"a\": \"x\"}\n{\"a\": [2, 1]}\n", "a:tag",
       "a:tag | 0 a='1' | 1 a='1.50' | 2 a='true' | 3 a='x' | 4 a='1' a='2'"},
      {"{\"a\": 123456789012345678901}\n", "a:tag", "a:tag | 0 a='123456789012345678901'"},
      {"{\"a\": 18446744073709551615}\n", "a:tag", "a:tag | 0 a='18446744073709551615'"},
      {"{\"a\": 1}\n{\"a\": [2]}\n", "a:int-tag", "a:int-tag | 0 a=1 | 1 a=2"},
      {"{\"a\": 3.0}\n{\"a\": 1e3}\n{\"a\": null}\n", "a:int64", "a:int64 | 0 a=3 | 1 a=1000 | 2"},
      {"{\"a\": 3}\n{\"a\": 10000000000000000000}\n", "a:float64",
       "a:float64 | 0 a=f3 | 1 a=f1e+19"},
      {"{\"a\": \"1970-01-02\"}\n{\"a\": -5}\n{\"a\": \"1970-01-01T01:00:00.5+01:00\"}\n", "a:time",
       "a:time | 0 a=86400000000 | 1 a=-5 | 2 a=500000"},
      {"{\"a\": true}\n", "a:bool", "a:bool | 0 a=true"},
      {"{\"a\": null, \"b\": 1}\n", "a:time", "a:time b:int64 | 0 b=1"},
  };
  for (const ReadCase& c : cases) EXPECT_EQ(ReadNdjson(c.text, c.types), c.read) << c.text;
}

TEST(NdjsonRows, LabelsAreInEveryRowOrInNone) {
  EXPECT_EQ(ReadNdjson("{\"label\": 7, \"a\": 1}\n{\"a\": 2, \"label\": 18446744073709551615}\n"),
            "a:int64 | 7 a=1 | 18446744073709551615 a=2");
  EXPECT_EQ(ReadNdjson("{\"label\": 3}\n{\"label\": 3}\n"), " | 3 | 3");
  const char kWanted[] = "label: expected a whole number from 0 to 2^64 - 1, found ";
  for (const auto& [value, found] : {std::pair("-1", "-1"),
                                     {"1.0", "1.0"},
                                     {"18446744073709551616", "18446744073709551616"},
                                     {"\"5\"", "\"5\""},
                                     {"null", "null"},
                                     {"true", "true"},
                                     {"[1]", "a list"},
                                     {"{}", "an object"}}) {
    EXPECT_EQ(ReadNdjson(absl::StrCat("{\"label\": ", value, "}\n")),
              absl::StrCat("FILE: line 1: ", kWanted, found));
  }
  EXPECT_EQ(ReadNdjson("{\"label\": 1}\n{}\n"),
            "FILE: line 2: label: expected one in every row or in none, found nothing");
  EXPECT_EQ(ReadNdjson("{}\n{\"label\": 1}\n"),
            "FILE: line 2: label: expected one in every row or in none, found one");
  EXPECT_EQ(ReadNdjson("{\"label\": 1, \"label\": 1}\n"),
            "FILE: line 1: label: expected a key once in an object, found it twice");
}

TEST(NdjsonRows, ValuesThatDoNotFitAreNamed) {
  const std::string mixed = "; give the field a type, such as --types year:tag";
  const ReadCase cases[] = {
      {"{\"year\": 1}\n{\"year\": \"abc\"}\n", "",
       "line 2: year: expected an integer of 64 bits as before, found \"abc\"" + mixed},
      {"{\"year\": 1.5}\n{\"year\": \"abc\"}\n", "",
       "line 2: year: expected a number as before, found \"abc\"" + mixed},
      {"{\"year\": \"abc\"}\n\n", "", "line 2: expected an object, found a blank line"},
      {"{\"year\": \"abc\"}\n{\"year\": 3.5}\n", "",
       "line 2: year: expected a string as before, found 3.5" + mixed},
      {"{\"year\": true}\n{\"year\": 1}\n", "",
       "line 2: year: expected true or false as before, found 1" + mixed},
      {"{\"year\": [1]}\n{\"year\": \"x\"}\n", "",
       "line 2: year: expected an integer of 64 bits as before, found \"x\"" + mixed},
      {"{\"year\": 2.5}\n{\"year\": [1]}\n", "",
       "line 2: year: expected a number as before, found a list" + mixed},
      {"{\"year\": 9223372036854775808}\n", "",
       "line 1: year: expected an integer of 64 bits, found 9223372036854775808"
       "; give the field a type, such as --types year:float64"},
      {"{\"year\": \"abc\"}\n", "year:int64",
       "line 1: year: expected an integer of 64 bits, found \"abc\""},
      {"{\"year\": 3.5}\n", "year:int64",
       "line 1: year: expected an integer of 64 bits, found 3.5"},
      {"{\"year\": 1e300}\n", "year:int64",
       "line 1: year: expected an integer of 64 bits, found 1e300"},
      {"{\"year\": -9223372036854775809}\n", "year:int64",
       "line 1: year: expected an integer of 64 bits, found -9223372036854775809"},
      {"{\"year\": [1]}\n", "year:int64",
       "line 1: year: expected an integer of 64 bits, found a list"},
      {"{\"year\": true}\n", "year:float64", "line 1: year: expected a number, found true"},
      {"{\"year\": []}\n", "year:bool", "line 1: year: expected true or false, found a list"},
      {"{\"year\": 1}\n", "year:bool", "line 1: year: expected true or false, found 1"},
      {"{\"year\": 3.0}\n", "year:int-tag",
       "line 1: year: expected an integer of 64 bits, found 3.0"},
      {"{\"year\": [\"a\"]}\n", "year:int-tag",
       "line 1: year: expected an integer of 64 bits, found \"a\""},
      {"{\"year\": 1.0}\n", "year:time",
       "line 1: year: expected a time such as 2026-05-01 or 2026-05-01T12:00:00Z, found 1.0"},
      {"{\"year\": \"May\"}\n", "year:time",
       "line 1: year: expected a time such as 2026-05-01 or 2026-05-01T12:00:00Z, found \"May\""},
      {"{\"a\": 1, \"b\": 2}\n", "year:tag", "expected a field \"year\", found none"},
      {"{}\n", "year:tag", "expected a field \"year\", found none"},
  };
  for (const ReadCase& c : cases)
    EXPECT_EQ(ReadNdjson(c.text, c.types), "FILE: " + c.read) << c.text;
}

TEST(NdjsonRows, WhatIsNoRowIsRefused) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "expected at least one row, found an empty file"},
      {"\xEF\xBB\xBF", "expected at least one row, found 0 rows"},
      {"\n", "line 1: expected an object, found a blank line"},
      {"{}\r\n \t\r\n", "line 2: expected an object, found a blank line"},
      {"[1]\n", "line 1: expected an object, found \"[1]\""},
      {"{}\n\xEF\xBB\xBF{}\n", "line 2: expected an object, found \"\xEF\xBB\xBF{}\""},
      {"{\"a\": {}}\n",
       "a: expected a string, a number, true, false, null or a list, found an obj"},
      {"{\"a\": [[1]]}\n",
       "a: expected only strings or only whole numbers in a list, found a list"},
      {"{\"a\": [{}]}\n",
       "a: expected only strings or only whole numbers in a list, found an object"},
      {"{\"a\": [1.0]}\n", "a: expected only strings or only whole numbers in a list, found 1.0"},
      {"{\"a\": [true]}\n", "a: expected only strings or only whole numbers in a list, found true"},
      {"{\"a\": [null]}\n", "a: expected only strings or only whole numbers in a list, found null"},
      {"{\"a\": [1, \"x\"]}\n",
       "a: expected only strings or only whole numbers in a list, found \"x\""},
      {"{\"a\": [\"x\", 1]}\n",
       "a: expected only strings or only whole numbers in a list, found 1"},
      {"{\"a\": 1, \"b\": 1, \"a\": 1}\n", "a: expected a key once in an object, found it twice"},
      {"{\"a\": null, \"a\": null}\n", "a: expected a key once in an object, found it twice"},
      {"{\"\": 1}\n",
       "line 1: expected a name of 1 to 256 bytes of UTF-8 for a field, found \"\" (0 bytes)"},
      {"{\"a\": 1} {}\n", "line 1: expected JSON at byte 10 of the line, found \"1} {\""},
      {"{\"a\": 1\n", "line 1: expected JSON at byte 8 of the line, found \"1\""},
      {"{\"a\": nan}\n", "line 1: expected JSON at byte 8 of the line, found \"\\\"a\\\": na\""},
      {"{\"a\": 01}\n", "line 1: expected JSON at byte 8 of the line, found \"1\""},
      {"{\"a\": 1e400}\n", "line 1: expected JSON at byte 11 of the line, found \"1e400\""},
      {"{\"a\": \"\xff\"}\n", "expected JSON at byte 8 of the line, found \"\\\"\uFFFD\""},
      {"{\"a\": \"x\n\"}\n", "line 1: expected JSON at byte 9 of the line"},
      {"{\"a\": 1,}\n", "line 1: expected JSON at byte 9"},
      {"{'a': 1}\n", "line 1: expected JSON at byte 2"},
      {"{/**/}\n", "line 1: expected JSON at byte 2"},
      {std::string("{\"a\": \0}\n", 9), "line 1: expected JSON at byte 7"},
  };
  for (const auto& [text, message] : cases) {
    const std::string read = ReadNdjson(text);
    EXPECT_TRUE(read.starts_with("FILE: ")) << read;
    EXPECT_THAT(read, HasSubstr(message)) << text;
  }
}

TEST(NdjsonRows, EndsOfLinesAndByteOrderMark) {
  EXPECT_EQ(ReadNdjson("\xEF\xBB\xBF{\"a\": 1}\r\n{\"a\": 2}\n{\"a\": 3}"),
            "a:int64 | 0 a=1 | 1 a=2 | 2 a=3");
}

/// A list of `n` strings, "0", "1", ... unless `same`.
std::string Strings(int n, bool same = false) {
  std::string list = "[";
  for (int i = 0; i < n; ++i) absl::StrAppend(&list, i == 0 ? "" : ",", "\"", same ? 0 : i, "\"");
  return list + "]";
}

TEST(NdjsonRows, LimitsHold) {
  const auto text = [](std::size_t bytes) {
    return absl::StrCat("{\"a\": \"", std::string(bytes, 'x'), "\"}\n");
  };
  EXPECT_TRUE(ReadNdjson(text(65'535)).starts_with("a:tag"));
  EXPECT_EQ(ReadNdjson(text(65'536)), "FILE: line 1: a: expected at most 65535 bytes, found 65536");
  const std::string name(256, 'n');
  EXPECT_TRUE(ReadNdjson(absl::StrCat("{\"", name, "\": 1}")).starts_with(name + ":int64"));
  EXPECT_THAT(ReadNdjson(absl::StrCat("{\"", name, "n\": 1}")), HasSubstr("(257 bytes)"));
  const auto padded = [](std::size_t bytes) {
    return absl::StrCat("{}\n{}", std::string(bytes - 2, ' '), "\r\n");
  };
  EXPECT_EQ(ReadNdjson(padded(1 << 20)), " | 0 | 1");
  EXPECT_EQ(ReadNdjson(padded((1 << 20) + 1)),
            "FILE: line 2: expected at most 1048576 bytes, found a longer line");
  EXPECT_EQ(ReadNdjson(std::string(5 << 20, '{')),
            "FILE: line 1: expected at most 1048576 bytes, found a longer line");
  EXPECT_TRUE(
      ReadNdjson("{\"y\": 1, \"a\": " + Strings(65'536) + "}").starts_with("y:int64 a:tag"));
  EXPECT_EQ(ReadNdjson("{\"a\": " + Strings(65'537) + "}"),
            "FILE: line 1: expected at most 65536 tags, found more");
  EXPECT_EQ(ReadNdjson("{\"a\": " + Strings(60'000, true) + "}"), "a:tag | 0 a='0'");
  std::string fields;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&fields, "{\"f", i, "\": 1, \"label\": 1}\n");
  EXPECT_TRUE(ReadNdjson(fields).starts_with("f0:int64"));
  EXPECT_EQ(ReadNdjson(fields + "{\"more\": 1, \"label\": 1}"),
            "FILE: line 1001: more: expected at most 1000 fields, found one more");
}

TEST(NdjsonRows, DeepNestingTakesNoStack) {
  const std::string deep(100'000, '[');
  EXPECT_THAT(ReadNdjson(deep), HasSubstr("expected an object, found \"[[["));
  EXPECT_THAT(ReadNdjson("{\"a\": " + deep), HasSubstr("in a list, found a list"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(ReadNdjson(objects), HasSubstr("found an object"));
}

TEST(NdjsonRows, WhatIsFoundIsShortened) {
  const std::string a(39, 'a');
  EXPECT_EQ(ReadNdjson("{\"y\": \"" + a + "bcd\"}", "y:int64"),
            "FILE: line 1: y: expected an integer of 64 bits, found \"" + a + "b\"...");
  EXPECT_EQ(ReadNdjson("{\"y\": \"" + a + "\u00e9\"}", "y:int64"),
            "FILE: line 1: y: expected an integer of 64 bits, found \"" + a + "\"...");
  EXPECT_EQ(ReadNdjson("{\"y\\n\": \"\\u0001\"}", "y\n:int64"),
            "FILE: line 1: y\\n: expected an integer of 64 bits, found \"\\u0001\"");
}

TEST(NdjsonRows, AreCutShortAnywhere) {
  const std::string whole =
      "{\"label\": 12, \"a\": [\"\u00e9\", \"b\"], \"c\": -1.5e3, \"d\": null}";
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_TRUE(ReadNdjson(whole.substr(0, bytes)).starts_with("FILE: ")) << bytes;
  EXPECT_EQ(ReadNdjson(whole), "a:tag c:float64 d:tag | 12 a='b' a='\u00e9' c=f-1500");
}

TEST(CsvRows, TypesAreInferred) {
  const ReadCase cases[] = {
      {"a,b\n1,x\n-2,y\n", "", "a:int64 b:tag | 0 a=1 b='x' | 1 a=-2 b='y'"},
      {"a\n1\n2.5\n1e3\n", "", "a:float64 | 0 a=f1 | 1 a=f2.5 | 2 a=f1000"},
      {"a\ntrue\nFALSE\nTrue\n", "", "a:bool | 0 a=true | 1 a=false | 2 a=true"},
      {"a,b\n,1\n,\n", "", "a:tag b:int64 | 0 b=1 | 1"},
      {"a\nx|b|x\n|\n\"\"\ny||\n", "", "a:tag | 0 a='b' a='x' | 1 | 2 | 3 a='y'"},
      {"a\nnan\ninf\n", "", "a:tag | 0 a='nan' | 1 a='inf'"},
      {"a\n007\n+5\n", "", "a:tag | 0 a='007' | 1 a='+5'"},
      {"a\n\"12\"\n", "", "a:int64 | 0 a=12"},
      {"a\n 1\n", "", "a:tag | 0 a=' 1'"},
      {"\"a,b\",\"c\"\"d\"\n\"x,\"\"y\"\"\nz\",2\n", "",
       "a,b:tag c\"d:int64 | 0 a,b='x,\"y\"\nz' c\"d=2"},
      {"\xEF\xBB\xBF"
       "a,b\r\n1,\"x\"\r\n2,y\r\n3,",
       "", "a:int64 b:tag | 0 a=1 b='x' | 1 a=2 b='y' | 2 a=3"},
      {"a\n1\n\n2\n", "", "a:int64 | 0 a=1 | 1 | 2 a=2"},
      {"label,a\n5,x\n18446744073709551615,y\n", "",
       "a:tag | 5 a='x' | 18446744073709551615 a='y'"},
      {"a,label\nx,0\n", "", "a:tag | 0 a='x'"},
      {"label\n4\n", "", " | 4"},
  };
  for (const ReadCase& c : cases) EXPECT_EQ(ReadCsv(c.text, c.types), c.read) << c.text;
}

TEST(CsvRows, GivenTypesConvert) {
  const ReadCase cases[] = {
      {"a\n1\n1.50\ntrue\n02|1\n", "a:tag",
       "a:tag | 0 a='1' | 1 a='1.50' | 2 a='true' | 3 a='02' a='1'"},
      {"a\n3|1||3\n2\n\n", "a:int-tag", "a:int-tag | 0 a=1 a=3 | 1 a=2 | 2"},
      {"a\n3.0\n007\n+5\n", "a:int64", "a:int64 | 0 a=3 | 1 a=7 | 2 a=5"},
      {"a\n3\n.5\n10000000000000000000\n", "a:float64",
       "a:float64 | 0 a=f3 | 1 a=f0.5 | 2 a=f1e+19"},
      {"a\n1970-01-02\n-5\n", "a:time", "a:time | 0 a=86400000000 | 1 a=-5"},
      {"a\n1\n0\ntRUE\nfalse\n", "a:bool", "a:bool | 0 a=true | 1 a=false | 2 a=true | 3 a=false"},
  };
  for (const ReadCase& c : cases) EXPECT_EQ(ReadCsv(c.text, c.types), c.read) << c.text;
}

TEST(CsvRows, ErrorsNameTheLine) {
  const std::string long_cell(65'536, 'x');
  const ReadCase cases[] = {
      {"", "", "expected at least one row, found an empty file"},
      {"a,b\n", "", "expected at least one row, found 0 rows"},
      {"a,b\n1,2\n1\n", "", "line 3: expected 2 cells as in the first line, found 1"},
      {"a,b\n\"x\ny\",2\n1,2,3\n", "", "line 4: expected 2 cells as in the first line, found 3"},
      {"a,b\n1,2\n\n", "", "line 3: expected 2 cells as in the first line, found 1"},
      {"a,a\n1,2\n", "", "line 1: a: expected one column, found two"},
      {"label,label\n1,2\n", "", "line 1: label: expected one column, found two"},
      {"a,\n1,2\n", "",
       "line 1: expected a name of 1 to 256 bytes of UTF-8 for a field, found \"\" (0 bytes)"},
      {"a\nx\"y\n", "",
       "line 2: expected a quote only at the beginning of a cell, or doubled in one,"
       " found \"\\\"y\\n\""},
      {"a\n\"x\"y\n", "",
       "line 2: expected a comma or the end of the line after a quoted cell, found \"y\\n\""},
      {"a\n\"x\n\n", "", "line 2: expected a quote at the end of a cell, found \"\\\"x\\n\\n\""},
      {"a,b\n1,\"x\nz\nq\"r\n", "",
       "line 4: expected a comma or the end of the line after a quoted cell, found \"r\\n\""},
      {"a\nx\n\xe9\n", "", "line 3: expected UTF-8, found \"\uFFFD\\n\""},
      {"year\n2020\nabc\n", "",
       "line 3: year: expected an integer of 64 bits as before, found \"abc\"; give the field a "
       "type,"
       " such as --types year:tag"},
      {"year\n1.5\nnan\n", "year:float64", "line 3: year: expected a number, found \"nan\""},
      {"year\n-inf\n", "year:float64", "line 2: year: expected a number, found \"-inf\""},
      {"year\n1e400\n", "year:float64", "line 2: year: expected a number, found \"1e400\""},
      {"year\n0x10\n", "year:float64", "line 2: year: expected a number, found \"0x10\""},
      {"year\n\"\"\n", "year:int64", "line 2: year: expected an integer of 64 bits, found \"\""},
      {"year\n3.5\n", "year:int64", "line 2: year: expected an integer of 64 bits, found 3.5"},
      {"year\n1|x\n", "year:int-tag", "line 2: year: expected an integer of 64 bits, found \"x\""},
      {"year\n9223372036854775808\n", "year:int-tag",
       "line 2: year: expected an integer of 64 bits, found 9223372036854775808"},
      {"year\nyes\n", "year:bool", "line 2: year: expected true or false, found \"yes\""},
      {"year\n2026-02-29\n", "year:time",
       "line 2: year: expected a time such as 2026-05-01 or 2026-05-01T12:00:00Z,"
       " found \"2026-02-29\""},
      {"a,b\n1,2\n", "c:tag", "expected a field \"c\", found none"},
      {"label,a\n-1,2\n", "",
       "line 2: label: expected a whole number from 0 to 2^64 - 1, found \"-1\""},
      {"label,a\n,2\n", "",
       "line 2: label: expected a whole number from 0 to 2^64 - 1, found \"\""},
      {"a\n" + long_cell + "\n", "", "line 2: a: expected at most 65535 bytes, found 65536"},
      {"a\n" + std::string(2 << 20, 'x'), "",
       "line 2: expected at most 1048576 bytes, found a longer line"},
      {"a\n\"" + std::string(2 << 20, 'x'), "",
       "line 2: expected at most 1048576 bytes, found a quote without an end"},
  };
  for (const ReadCase& c : cases)
    EXPECT_EQ(ReadCsv(c.text, c.types), "FILE: " + c.read) << c.text.substr(0, 100);
}

TEST(CsvRows, LimitsHold) {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back(absl::StrCat("f", i));
  const auto table = [&] {
    const std::string row = absl::StrJoin(std::vector<std::string>(names.size(), "1"), ",");
    return absl::StrCat(absl::StrJoin(names, ","), "\n", row, "\n");
  };
  EXPECT_TRUE(ReadCsv(table()).starts_with("f0:int64"));
  names.push_back("label");
  EXPECT_TRUE(ReadCsv(table()).starts_with("f0:int64"));
  names.push_back("more");
  EXPECT_EQ(ReadCsv(table()), "FILE: line 1: more: expected at most 1000 fields, found one more");
  std::string tags = "a\n0";
  for (int i = 1; i < 65'536; ++i) absl::StrAppend(&tags, "|", i);
  EXPECT_TRUE(ReadCsv(tags, "a:int-tag").starts_with("a:int-tag | 0 a=0 a=1"));
  EXPECT_TRUE(ReadCsv(tags).starts_with("a:tag"));
  EXPECT_EQ(ReadCsv(tags + "|65536"), "FILE: line 2: expected at most 65536 tags, found more");
}

TEST(CsvRows, AreCutShortAnywhere) {
  const std::string whole = "label,a,b\n12,\"x, \"\"\u00e9\"\"\",-1.5e3\n";
  EXPECT_EQ(ReadCsv(whole), "a:tag b:float64 | 12 a='x, \"\u00e9\"' b=f-1500");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::string read = ReadCsv(whole.substr(0, bytes));
    EXPECT_TRUE(read.starts_with("FILE: ") || read.starts_with("a:")) << bytes << read;
  }
}

/// Both formats of the same random rows.
struct RandomRows {
  std::string ndjson, csv = "label,t,n,i,f,b\n";
};

RandomRows MakeRandomRows(std::uint64_t seed, int rows) {
  const std::string words[] = {"x",   "cat",  "a b",          "5",  "\"q\"",
                               "c,d", "l\nm", "\u00e9\u20ac", "\t", "'"};
  const char* numbers[] = {"0", "-7", "9007199254740993"};
  const char* floats[] = {"0.5", "-1e-3", "4"};
  RandomRows made;
  std::uint64_t counter = 0;
  const auto below = [&](std::uint64_t bound) { return RandomBelow(seed, counter++, bound); };
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string> strings, texts, wholes;
    for (std::uint64_t n = below(4); n > 0; --n) {
      texts.push_back(words[below(std::size(words))]);
      strings.push_back(JsonText(nlohmann::json(texts.back())));
      wholes.push_back(absl::StrCat(static_cast<std::int64_t>(below(9)) - 4));
    }
    std::string cell = absl::StrJoin(texts, "|");
    for (std::size_t at = 0; (at = cell.find('"', at)) != cell.npos; at += 2)
      cell.insert(at, 1, '"');
    const std::uint64_t label = below(1'000'000);
    absl::StrAppend(&made.ndjson, "{\"label\": ", label, ", \"t\": [", absl::StrJoin(strings, ","),
                    "], \"n\": [", absl::StrJoin(wholes, ","), "]");
    absl::StrAppend(&made.csv, label, ",\"", cell, "\",", absl::StrJoin(wholes, "|"));
    const std::string values[] = {numbers[below(3)], floats[below(3)], below(2) ? "true" : "false"};
    for (std::size_t i = 0; i < 3; ++i) {
      const bool null = row > 0 && below(4) == 0;
      absl::StrAppend(&made.ndjson, ", \"", std::string(1, "ifb"[i]),
                      "\": ", null ? "null" : values[i]);
      absl::StrAppend(&made.csv, ",", null ? "" : values[i]);
    }
    absl::StrAppend(&made.ndjson, "}\n");
    absl::StrAppend(&made.csv, "\n");
  }
  return made;
}

TEST(AttributeRows, AreTheSameInNdjsonAndCsv) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomRows made = MakeRandomRows(seed, 100);
    const std::string types = "t:tag,n:int-tag,f:float64";
    const std::string read = ReadNdjson(made.ndjson, types);
    EXPECT_TRUE(read.starts_with("t:tag n:int-tag i:int64 f:float64 b:bool | ")) << read;
    EXPECT_EQ(read, ReadCsv(made.csv, types));
  }
}

/// As Open, with bytes that were changed at random: an error or rows, never a crash.
TEST(AttributeRows, DamageIsAnErrorOrARow) {
  const RandomRows made = MakeRandomRows(7, 3);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    std::string text = i % 2 == 0 ? made.ndjson : made.csv;
    text[RandomBelow(8, 2 * i, text.size())] = static_cast<char>(Random(8, 2 * i + 1));
    const std::string read = i % 2 == 0 ? ReadNdjson(text) : ReadCsv(text);
    EXPECT_FALSE(read.empty());
  }
}

TEST(AttributeRows, VisitsEndWithTheFirstError) {
  const TempFolder folder;
  const auto rows = *AttributeRows::Open(folder.Write("a.jsonl", "{\"a\": 1}\n{}\n{}\n"));
  EXPECT_EQ(rows->rows(), 3u);
  EXPECT_FALSE(rows->has_labels());
  int calls = 0;
  const absl::Status status = rows->ForEach([&](std::uint64_t row, auto...) {
    ++calls;
    return row == 1 ? absl::AbortedError("enough") : absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(rows->ForEach([](auto...) { return absl::OkStatus(); }).ok());
}

TEST(AttributeRows, OtherFilesAreRefused) {
  const TempFolder folder;
  for (const char* name : {"a.json", "a", "a.csv.gz", "a.parquet"}) {
    EXPECT_THAT(ReadRowsOf(folder.Write(name, "{}\n")),
                HasSubstr("FILE: expected suffix .ndjson, .jsonl, .csv or .spmat, found '"));
  }
  EXPECT_EQ(AttributeRows::Open(folder / "none.csv").status().code(), absl::StatusCode::kNotFound);
  const std::string path = folder.Write("a.csv", "a\n1\n");
  const std::vector<AttributeField> twice(2, {"a", AttributeType::kInt64});
  EXPECT_EQ(AttributeRows::Open(path, twice).status().message(),
            path + ": a: expected one type, found two");
  EXPECT_EQ(AttributeRows::Open(path, {{"label", AttributeType::kInt64}}).status().message(),
            path + ": label: expected no type, since it is the label of a row, found one");
  EXPECT_THAT(AttributeRows::Open(path, {{"", AttributeType::kTag}}).status().ToString(),
              HasSubstr("expected a name of 1 to 256 bytes"));
}

std::string Spmat(std::int64_t rows, std::int64_t columns,
                  const std::vector<std::int64_t>& pointers,
                  const std::vector<std::int32_t>& indices) {
  return Bytes(rows, columns, static_cast<std::int64_t>(indices.size())) + BytesOf(pointers) +
         BytesOf(indices) + BytesOf(std::vector<float>(indices.size(), 1));
}
std::string ReadSpmat(const std::string& bytes, const std::string& types = "") {
  const TempFolder folder;
  return ReadRowsOf(folder.Write("a.spmat", bytes), types);
}

TEST(SpmatRows, AreRead) {
  const std::string good = Spmat(3, 11, {0, 3, 3, 4}, {10, 0, 2, 7});
  EXPECT_EQ(ReadSpmat(good), "tags:int-tag | 0 tags=0 tags=2 tags=10 | 1 | 2 tags=7");
  EXPECT_EQ(ReadSpmat(good, "tags:int-tag"), ReadSpmat(good));
  EXPECT_EQ(ReadSpmat(good, "tags:tag"),
            "tags:tag | 0 tags='0' tags='10' tags='2' | 1 | 2 tags='7'");
  EXPECT_EQ(ReadSpmat(Spmat(1, 0, {0, 0}, {})), "tags:int-tag | 0");
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_THAT(ReadSpmat(good.substr(0, bytes)),
                HasSubstr(absl::StrCat("found ", bytes, " bytes")));
}

TEST(SpmatRows, WhatIsWrongIsNamed) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> two = {0, 1, 2};
  std::vector<std::int32_t> many(65'537);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int32_t>(i);
  const ReadCase cases[] = {
      {"", "", "expected a header of 24 bytes, found 0 bytes"},
      {Spmat(-1, 2, two, {0, 1}), "",
       "offset 0: expected numbers of rows, columns and values, found -1, 2 and 2"},
      {Spmat(2, -1, two, {0, 1}), "",
       "offset 0: expected numbers of rows, columns and values, found 2, -1 and 2"},
      {Bytes(std::int64_t{1}, std::int64_t{1}, std::int64_t{-1}), "",
       "offset 0: expected numbers of rows, columns and values, found 1, 1 and -1"},
      {Spmat(most, 2, two, {0, 1}), "",
       "expected 24 + 8 * (rows + 1) + 8 * values bytes for 9223372036854775807 rows and 2"
       " values, found 64 bytes"},
      {Bytes(std::int64_t{1}, std::int64_t{1}, std::int64_t{1} << 61, std::int64_t{0}), "",
       "expected 24 + 8 * (rows + 1) + 8 * values bytes for 1 rows and 2305843009213693952"
       " values, found 32 bytes"},
      {Spmat(2, 2, two, {0, 1}) + "x", "",
       "expected 24 + 8 * (rows + 1) + 8 * values bytes for 2 rows and 2 values, found 65 bytes"},
      {Spmat(0, 2, {0}, {}), "", "expected at least one row, found 0 rows"},
      {Spmat(2, 2, {1, 1, 2}, {0, 1}), "", "row 0: expected indptr 0 in front of it, found 1"},
      {Spmat(2, 2, {0, 2, 1}, {0, 1}), "",
       "row 1: expected indptr from 2 to 2 at its end, found 1"},
      {Spmat(2, 2, {0, -1, 2}, {0, 1}), "",
       "row 0: expected indptr from 0 to 2 at its end, found -1"},
      {Spmat(2, 2, {0, most, 2}, {0, 1}), "",
       "row 0: expected indptr from 0 to 2 at its end, found 9223372036854775807"},
      {Spmat(2, 2, {0, 1, 1}, {0, 1}), "",
       "row 1: expected indptr from 2 to 2 at its end, found 1"},
      {Spmat(2, 2, two, {0, 2}), "", "row 1: expected indices from 0 to 1, found 2"},
      {Spmat(2, 2, two, {-5, 1}), "", "row 0: expected indices from 0 to 1, found -5"},
      {Spmat(1, 9, {0, 3}, {7, 1, 7}), "", "row 0: expected each index once, found 7 twice"},
      {Spmat(1, 70'000, {0, 65'537}, many), "", "row 0: expected at most 65536 tags, found 65537"},
      {Spmat(2, 2, two, {0, 1}), "tags:int64",
       "row 0: tags: expected an integer of 64 bits, found a list"},
      {Spmat(2, 2, two, {0, 1}), "year:tag", "expected a field \"year\", found none"},
  };
  for (const ReadCase& c : cases) EXPECT_EQ(ReadSpmat(c.text, c.types), "FILE: " + c.read);
}

}  // namespace
}  // namespace hmann
