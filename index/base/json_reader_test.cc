#include "index/base/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_join.h"
#include "index/base/parse_json.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;
using Reader = JsonReader<Json>;

/// The message for the first error in `text`; empty if there is none.
template <class Read>
std::string Complaint(const std::string& text, const Read& read,
                      const std::string& prefix = "f.json: table.") {
  const Json json = Json::parse(text);
  absl::Status status;
  Reader reader(json, prefix, absl::StatusCode::kDataLoss, &status);
  if (reader.ok()) read(reader);
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kDataLoss);
  return std::string(status.message());
}

TEST(JsonReader, ReadsEveryKind) {
  std::string text, absent_text = "as before";
  double number = 0;
  float small = 0;
  std::uint64_t big = 0;
  std::int64_t least = 0;
  std::uint32_t whole = 0;
  std::optional<double> there, absent;
  std::vector<int> items;
  EXPECT_EQ(
      Complaint(
          R"({"t": "x", "n": 1.5, "s": 0.25, "big": 18446744073709551615, "least": -9223372036854775808, "whole": 16.0,
                          "there": 3, "o": {"list": [{"i": 1}, {"i": 2}]}, "empty": []})",
          [&](Reader& in) {
            in.Text("t", &text);
            in.Number("n", 0, 2, &number);
            in.Number("s", 0, 1, &small);
            in.Whole("big", 0, ~std::uint64_t{0}, &big);
            in.Whole("least", std::numeric_limits<std::int64_t>::min(), 0, &least);
            in.Whole("whole", 1, 16, &whole);
            in.Number("there", 0, 9, &there);
            in.Number("absent", 0, 9, &absent);
            EXPECT_TRUE(in.Has("t"));
            EXPECT_FALSE(in.Has("absent"));
            in.Object("o", [&](Reader& inner) {
              inner.List("list", 1, 2,
                         [&](Reader& item) { item.Whole("i", 0, 9, &items.emplace_back()); });
            });
            in.List("empty", 0, 0, [](Reader&) { FAIL(); });
          }),
      "");
  EXPECT_EQ(text, "x");
  EXPECT_EQ(number, 1.5);
  EXPECT_EQ(small, 0.25f);
  EXPECT_EQ(big, ~std::uint64_t{0});
  EXPECT_EQ(least, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(whole, 16u);
  EXPECT_EQ(there, 3);
  EXPECT_FALSE(absent.has_value());
  EXPECT_THAT(items, testing::ElementsAre(1, 2));
}

TEST(JsonReader, SaysWhatIsWrongAndWhere) {
  const auto whole = [](Reader& in) {
    std::uint32_t value = 0;
    in.Whole("k", 1, 100, &value);
  };
  EXPECT_EQ(Complaint("{}", whole),
            "f.json: table.k: expected a whole number from 1 to 100, found nothing");
  EXPECT_EQ(Complaint(R"({"k": "ten"})", whole),
            "f.json: table.k: expected a whole number from 1 to 100, found \"ten\"");
  for (const char* wrong : {"0", "101", "-1", "1.5", "4294967297", "18446744073709551615", "1e300",
                            "true", "null", "[1]"}) {
    EXPECT_EQ(Complaint(absl::StrCat("{\"k\": ", wrong, "}"), whole),
              absl::StrCat("f.json: table.k: expected a whole number from 1 to 100, found ",
                           wrong[0] == '1' && wrong[1] == 'e' ? "1e+300" : wrong));
  }
  const auto number = [](Reader& in) {
    double value = 0;
    in.Number("n", 0, 1, &value);
  };
  EXPECT_EQ(Complaint(R"({"n": 7})", number),
            "f.json: table.n: expected a number from 0 to 1, found 7");
  EXPECT_EQ(Complaint(R"({"n": null})", number),
            "f.json: table.n: expected a number from 0 to 1, found null");
  const auto text = [](Reader& in) {
    std::string value;
    in.Text("t", &value);
  };
  EXPECT_EQ(Complaint(R"({"t": 7})", text, "setting "), "setting t: expected a text, found 7");
  EXPECT_EQ(Complaint("[1]", text), "f.json: table: expected an object, found [1]");
  EXPECT_EQ(Complaint("[1]", text, "setting "), "setting: expected an object, found [1]");
  EXPECT_EQ(Complaint(absl::StrCat("{\"t\": [\"", std::string(1000, 'x'), "\"]}"), text).size(),
            std::string("f.json: table.t: expected a text, found ").size() + 80);
}

TEST(JsonReader, NamesPlacesInside) {
  const auto read = [](Reader& in) {
    in.List("a", 1, 2, [](Reader& item) {
      item.Object("b", [](Reader& inner) {
        int value = 0;
        inner.Whole("c", 0, 9, &value);
      });
    });
  };
  EXPECT_EQ(Complaint(R"({"a": [{"b": {"c": 1}}, {"b": {"c": 10}}]})", read),
            "f.json: table.a[1].b.c: expected a whole number from 0 to 9, found 10");
  EXPECT_EQ(Complaint(R"({"a": [{"b": {"c": 1}}, 5]})", read),
            "f.json: table.a[1]: expected an object, found 5");
  EXPECT_EQ(Complaint(R"({"a": [{"b": 5}]})", read),
            "f.json: table.a[0].b: expected an object, found 5");
  EXPECT_EQ(Complaint(R"({"a": {}})", read), "f.json: table.a: expected a list, found {}");
  EXPECT_EQ(Complaint(R"({"a": []})", read), "f.json: table.a: expected 1 to 2 elements, found 0");
  EXPECT_EQ(Complaint(R"({"a": [{}, {}, {}]})", read),
            "f.json: table.a: expected 1 to 2 elements, found 3");
}

TEST(JsonReader, TheFirstErrorStaysAndNothingIsReadBehindIt) {
  int first = 1, second = 2;
  std::optional<std::string> optional;
  bool entered = false;
  EXPECT_EQ(Complaint(R"({"first": 3, "second": 4, "text": 5, "o": {}, "list": [{}]})",
                      [&](Reader& in) {
                        in.Text("text", &optional);
                        in.Whole("first", 0, 9, &first);
                        in.Whole("missing", 0, 9, &second);
                        in.Wrong("second", "three", "4");
                        in.Object("o", [&](Reader&) { entered = true; });
                        in.List("list", 0, 9, [&](Reader&) { entered = true; });
                      }),
            "f.json: table.text: expected a text, found 5");
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  EXPECT_FALSE(optional.has_value());
  EXPECT_FALSE(entered);
  std::uint32_t k = 7;
  EXPECT_EQ(Complaint(R"({"k": 300})",
                      [&](Reader& in) {
                        in.Whole("k", 0, 255, &k);
                        EXPECT_FALSE(in.ok());
                      }),
            "f.json: table.k: expected a whole number from 0 to 255, found 300");
  EXPECT_EQ(k, 7u);
}

TEST(ParseJson, LevelsAreBounded) {
  const auto lists = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_TRUE(ParseJson(lists(64)).is_array());
  for (const std::size_t levels : {65, 100'000, 4'000'000}) {
    std::string objects;
    for (std::size_t i = 0; i < levels; ++i) objects += R"({"":)";
    EXPECT_TRUE(ParseJson(lists(levels)).is_discarded());
    EXPECT_TRUE(ParseJson<Json>("{\"a\":" + lists(levels) + "}").is_discarded());
    EXPECT_TRUE(ParseJson(objects + "0" + std::string(levels, '}')).is_discarded());
    EXPECT_TRUE(ParseJson(objects).is_discarded());
  }
  const std::string text = R"({"a\\\"[": ")" + std::string(100, '[') + R"(\\"})";
  EXPECT_EQ(ParseJson(text), nlohmann::json::parse(text));
  EXPECT_EQ(ParseJson("[" + absl::StrJoin(std::vector<int>(100, 1), ",") + ",[]]").size(), 101u);
  EXPECT_TRUE(ParseJson("\"" + std::string(99, '\\')).is_discarded());
}

TEST(JsonText, BytesThatAreNotUtf8AreReplaced) {
  const std::string name = "a\xff\xc3";
  EXPECT_EQ(JsonText(nlohmann::json{{name, name}}),
            "{\"a\xef\xbf\xbd\xef\xbf\xbd\":\"a\xef\xbf\xbd\xef\xbf\xbd\"}");
  EXPECT_EQ(Utf8(name), "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(Utf8("\xc3\xa9 \"quoted\" \n"), "\xc3\xa9 \"quoted\" \n");
}

}  // namespace
}  // namespace hmann
