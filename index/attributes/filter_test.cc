#include "hmann/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/random.h"

namespace hmann {
namespace {

using Kind = FilterNode::Kind;
using Op = FilterNode::Op;
using Case = std::pair<std::string, std::string>;

/// The canonical text of `text`, after checking that it is its own canonical text; or the
/// error without "filter: ".
std::string Canonical(const std::string& text, const FilterArguments& arguments = {}) {
  const auto filter = Filter::Parse(text, arguments);
  if (!filter.ok()) {
    EXPECT_EQ(filter.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(filter.status().message());
    EXPECT_THAT(message, testing::StartsWith("filter: "));
    return message.substr(std::string("filter: ").size());
  }
  if (filter->text().size() > Filter::kMostBytes) return filter->text();
  const auto again = Filter::Parse(filter->text());
  EXPECT_TRUE(again.ok()) << again.status() << " of " << filter->text();
  if (again.ok()) {
    EXPECT_TRUE(again->root() == filter->root()) << filter->text();
    EXPECT_EQ(again->text(), filter->text());
  }
  return filter->text();
}

void ExpectCanonical(const std::vector<Case>& cases, const FilterArguments& arguments = {}) {
  for (const auto& [text, canonical] : cases)
    EXPECT_EQ(Canonical(text, arguments), canonical) << text;
}

TEST(Filter, BindsNotBeforeAndBeforeOr) {
  ExpectCanonical({
      {"a=1 or b=2 and c=3", "a = 1 or b = 2 and c = 3"},
      {"a=1 or (b=2 and c=3)", "a = 1 or b = 2 and c = 3"},
      {"(a=1 or b=2) and c=3", "(a = 1 or b = 2) and c = 3"},
      {"not a=1 and b=2", "not a = 1 and b = 2"},
      {"(not a=1) and b=2", "not a = 1 and b = 2"},
      {"not (a=1 and b=2)", "not (a = 1 and b = 2)"},
      {"not (a=1 or b=2) or c", "not (a = 1 or b = 2) or c = true"},
      {"((a=1)) and ((b=2 and (c=3 and d=4)))", "a = 1 and b = 2 and c = 3 and d = 4"},
      {"a=1 or ((b=2 or c=3) or d=4)", "a = 1 or b = 2 or c = 3 or d = 4"},
      {"a AND(b)Or\n\tNOT\rc", "a = true and b = true or not c = true"},
      {"not not a", "a = true"},
      {"not (not not (a))", "not a = true"},
      {"a and not not (b and c)", "a = true and b = true and c = true"},
      {"not a in (1)", "a not in (1)"},
      {"not a not in (1)", "a in (1)"},
      {"not (a is null)", "a is not null"},
      {"not a is not null", "a is null"},
      {"not has(a, 1)", "not has(a, 1)"},
  });
}

TEST(Filter, ReadsEveryCondition) {
  ExpectCanonical({
      {"a==1", "a = 1"},
      {"a = 1", "a = 1"},
      {"a!=1", "a != 1"},
      {"a<>1", "a != 1"},
      {"a<-1", "a < -1"},
      {"a<=1", "a <= 1"},
      {"a>1", "a > 1"},
      {"a>=+1", "a >= 1"},
      {"a", "a = true"},
      {"a=FALSE", "a = false"},
      {"a Is Null", "a is null"},
      {"a is NOT null", "a is not null"},
      {"a In(2,1,2)", "a in (1, 2)"},
      {"a not in(2)", "a not in (2)"},
      {"Has(a,'y',\"x\",'y')", R"(has(a, "x", "y"))"},
      {"a in (true, 1.0, 1, 'true', \"1\", 10, 2, false)",
       R"(a in ("1", "true", 1, 1.0, 10, 2, false, true))"},
  });
}

TEST(Filter, ReadsFields) {
  ExpectCanonical({
      {"_", "_ = true"},
      {"_a.B9", "_a.B9 = true"},
      {"`a`", "a = true"},
      {"`and`", "`and` = true"},
      {"`NULL`=1", "`NULL` = 1"},
      {"ands", "ands = true"},
      {"`9a` and `a b`", "`9a` = true and `a b` = true"},
      {"`a``b``` is null", "`a``b``` is null"},
      {"````", "```` = true"},
      {"`\xc3\xa9` in (1)", "`\xc3\xa9` in (1)"},
      {"`" + std::string(256, 'a') + "`", std::string(256, 'a') + " = true"},
  });
}

TEST(Filter, ReadsNumbers) {
  const std::string least = "-9223372036854775808", most = "9223372036854775807";
  ExpectCanonical({
      {"a = " + least, "a = " + least},
      {"a = " + most, "a = " + most},
      {"a = 007", "a = 7"},
      {"a = -0", "a = 0"},
      {"a = 1.0", "a = 1.0"},
      {"a = -0.0", "a = 0.0"},
      {"a = +1.50", "a = 1.5"},
      {"a = 1e300", "a = 1e300"},
      {"a = 1E+5", "a = 1e5"},
      {"a = 1e-007", "a = 1e-7"},
      {"a = 1e-999", "a = 0.0"},
      {"a = 0.1", "a = 0.1"},
      {"a = 9223372036854775808.0", "a = 9223372036854775808.0"},
      {"a = 5e-324", "a = 5e-324"},
      {"a = 1.7976931348623157e308", "a = 1.7976931348623157e308"},
  });
}

TEST(Filter, ReadsStrings) {
  ExpectCanonical({
      {"a = ''", R"(a = "")"},
      {R"(a = 'it"s')", R"(a = "it\"s")"},
      {R"(a = "it's")", R"(a = "it's")"},
      {R"(a = 'it\'s\"\\\n\t\r')", R"(a = "it's\"\\\n\t\r")"},
      {R"(a = "\u0041\u00e9\u20AC\ud83d\uDE00")", "a = \"A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
      {R"(a = "\u0000\u001f\u000a\u007f")", "a = \"\\u0000\\u001f\\n\x7f\""},
      {R"(a = "\u0008\u000C\\b\\\u0008")", R"(a = "\u0008\u000c\\b\\\u0008")"},
      {"a = \"\xf4\x8f\xbf\xbf\"", "a = \"\xf4\x8f\xbf\xbf\""},
  });
}

TEST(Filter, KeepsKindsColumnsAndValues) {
  const auto filter = Filter::Parse("(a = 1 and not b) or c not in ('x')");
  ASSERT_TRUE(filter.ok()) << filter.status();
  const FilterNode& root = filter->root();
  ASSERT_EQ(root.kind, Kind::kOr);
  EXPECT_EQ(root.column, 1u);
  ASSERT_EQ(root.children.size(), 2u);
  const FilterNode& both = root.children[0];
  ASSERT_EQ(both.kind, Kind::kAnd);
  EXPECT_EQ(both.column, 2u);
  EXPECT_EQ(both.children[0].field, "a");
  EXPECT_EQ(both.children[0].values, (std::vector<FilterValue>{std::int64_t{1}}));
  EXPECT_EQ(both.children[1].kind, Kind::kNot);
  EXPECT_EQ(both.children[1].column, 12u);
  EXPECT_EQ(both.children[1].children[0].column, 16u);
  EXPECT_EQ(both.children[1].children[0].values, (std::vector<FilterValue>{true}));
  ASSERT_EQ(root.children[1].kind, Kind::kNot);
  EXPECT_EQ(root.children[1].column, 22u);
  EXPECT_EQ(root.children[1].children[0].kind, Kind::kIn);
  EXPECT_EQ(root.children[1].children[0].values, (std::vector<FilterValue>{std::string("x")}));
}

TEST(Filter, IsEqualWithoutColumns) {
  const auto parse = [](const char* text) { return Filter::Parse(text)->root(); };
  EXPECT_TRUE(parse("a = 1 or  b") == parse("  (a = 1) or b = true"));
  for (const char* other : {"a = 1 or c", "a = 1.0 or b", "a != 1 or b", "a = 1 and b",
                            "a = 1 or b or c", "a in (1) or b", "a = 1"})
    EXPECT_FALSE(parse("a = 1 or b") == parse(other)) << other;
}

TEST(Filter, SaysWhichTokenIsWrong) {
  ExpectCanonical({
      {"", "column 1: expected a condition, found the end"},
      {" \n ", "column 4: expected a condition, found the end"},
      {"a = 1 and", "column 10: expected a condition, found the end"},
      {"a = 1 or or b", "column 10: expected a condition, found 'or'"},
      {"5 = a", "column 1: expected a condition, found '5'"},
      {"not", "column 4: expected a condition, found the end"},
      {"()", "column 2: expected a condition, found ')'"},
      {"a and b = and", "column 11: expected a value, found 'and'"},
      {"a =", "column 4: expected a value, found the end"},
      {"a => 1", "column 4: expected a value, found '>'"},
      {"a = nan", "column 5: expected a value, found 'nan'"},
      {"a = Inf", "column 5: expected a value, found 'Inf'"},
      {"a = null", "column 5: expected a value, found 'null'"},
      {"a = b", "column 5: expected a value, found 'b'"},
      {"a b", "column 3: expected an operator, 'and' or 'or', found 'b'"},
      {"a = 1 'b'", "column 7: expected 'and', 'or' or the end, found ''b''"},
      {"a = 1)", "column 6: expected 'and', 'or' or the end, found ')'"},
      {"(a", "column 3: expected 'and', 'or' or ')', found the end"},
      {"(a is null b", "column 12: expected 'and', 'or' or ')', found 'b'"},
      {"a not 5", "column 7: expected 'in', found '5'"},
      {"a is 5", "column 6: expected 'null' or 'not null', found '5'"},
      {"a is not 5", "column 10: expected 'null', found '5'"},
      {"a in 5", "column 6: expected '(' or an argument such as $name, found '5'"},
      {"a in ()", "column 7: expected a value, found ')'"},
      {"a in (1,)", "column 9: expected a value, found ')'"},
      {"a in (1 2)", "column 9: expected ',' or ')', found '2'"},
      {"a in (1", "column 8: expected ',' or ')', found the end"},
      {"has a", "column 5: expected '(', found 'a'"},
      {"has(1, 2)", "column 5: expected a field, found '1'"},
      {"has(a)", "column 6: expected ',', found ')'"},
      {"has(a,)", "column 7: expected a value, found ')'"},
      {"has(a, 1", "column 9: expected ',' or ')', found the end"},
      {"a = 1 " + std::string(50, 'x'),
       "column 7: expected 'and', 'or' or the end, found '" + std::string(40, 'x') + "...'"},
      {"a = 1 '" + std::string(38, 'x') + "\xc3\xa9yyyyy'",
       "column 7: expected 'and', 'or' or the end, found ''" + std::string(38, 'x') + "...'"},
      {"a = 1 `\n`", "column 7: expected 'and', 'or' or the end, found '`\\n`'"},
  });
}

TEST(Filter, SaysWhereTheTextIsWrong) {
  const std::string a_text = R"(expected text or one of \" \' \\ \n \t \r \uXXXX, found )";
  const std::string a_part = "expected a name, a value or an operator, found ";
  const std::string a_unit = R"(column 6: expected \uXXXX, or a pair of surrogates, found )";
  const std::string a_number = "column 5: expected a finite number, found ";
  const std::string an_integer = "column 5: expected an integer of 64 bits, found ";
  const std::string a_name = "expected a name of 1 to 256 bytes of UTF-8 for a field, found ";
  ExpectCanonical({
      {"a = 'b", "column 5: the string that begins here has no end"},
      {"a = 'b\\", "column 7: " + a_text + "'\\'"},
      {"a = 'b\\'", "column 5: the string that begins here has no end"},
      {"`a``", "column 1: the name that begins here has no end"},
      {"`", "column 1: the name that begins here has no end"},
      {"``", "column 1: " + a_name + "\"\" (0 bytes)"},
      {"a or " + std::string(257, 'a'),
       "column 6: " + a_name + "\"" + std::string(40, 'a') + "\"... (257 bytes)"},
      {"`" + std::string(300, ' ') + "`",
       "column 1: " + a_name + "\"" + std::string(40, ' ') + "\"... (300 bytes)"},
      {"`a\xff`", "column 3: expected UTF-8, found the byte 0xff"},
      {"a = '\n'", "column 6: " + a_text + "'\\n''"},
      {std::string("a = '\0'", 7), "column 6: " + a_text + "'\\u0000''"},
      {R"(a = 'b\q')", "column 7: " + a_text + R"('\q'')"},
      {"a = 'b\\\xff'", "column 8: expected UTF-8, found the byte 0xff"},
      {R"(a = '\u12g4')", a_unit + R"('\u12g4')"},
      {R"(a = '\u12)", a_unit + R"('\u12')"},
      {R"(a = '\ud83d')", a_unit + R"('\ud83d')"},
      {R"(a = '\ud83d\u0041')", a_unit + R"('\ud83d')"},
      {R"(a = '\uDE00\ud83d')", a_unit + R"('\uDE00')"},
      {"a = 12abc", a_number + "'12abc'"},
      {"a = 1.", a_number + "'1.'"},
      {"a = .5", a_number + "'.5'"},
      {"a = 1e", a_number + "'1e'"},
      {"a = 1e-", a_number + "'1e-'"},
      {"a = 1.2.3", a_number + "'1.2.3'"},
      {"a = -inf", a_number + "'-inf'"},
      {"a = - 5", an_integer + "'-'"},
      {"a = 0x1F", a_number + "'0x1F'"},
      {"a = 9223372036854775808", an_integer + "'9223372036854775808'"},
      {"a = -9223372036854775809", an_integer + "'-9223372036854775809'"},
      {"a = 1e999", a_number + "'1e999'"},
      {"a = -1e999", a_number + "'-1e999'"},
      {"a & b", "column 3: " + a_part + "'& b'"},
      {"a ! b", "column 3: " + a_part + "'! b'"},
      {"\xc3\xa9 = 1", "column 1: " + a_part + "'\xc3\xa9 = 1'"},
      {"\xc3", "column 1: expected UTF-8, found the byte 0xc3"},
      {std::string("a\0", 2), "column 2: " + a_part + "'\\u0000'"},
  });
}

TEST(Filter, StringsAreUtf8) {
  for (const char* wrong :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf0\x9f\x98", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_THAT(Canonical(absl::StrCat("a = '", wrong, "'")),
                testing::StartsWith("column 6: expected UTF-8, found the byte 0x"));
    EXPECT_THAT(Canonical("a = $s", {{"s", {std::string(wrong)}}}),
                testing::StartsWith("column 5: expected UTF-8 in '$s', found '\uFFFD"));
  }
  for (const char* right : {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                            "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(Canonical(absl::StrCat("a = '", right, "'")), absl::StrCat("a = \"", right, "\""));
}

TEST(Filter, TakesArguments) {
  const std::string text = "x \"y\"\n";
  const FilterArguments three = {{"v", {std::int64_t{3}, 1.0, std::int64_t{3}, text}}};
  const std::string listed = R"(("x \"y\"\n", 1.0, 3))";
  EXPECT_EQ(Canonical("a in $v", three), "a in " + listed);
  EXPECT_EQ(Canonical("a not in $v and b", three), "a not in " + listed + " and b = true");
  EXPECT_EQ(Canonical("has(a, $v)", three), R"(has(a, "x \"y\"\n", 1.0, 3))");
  EXPECT_EQ(Canonical("a >= $v.1 or b in ($v.1, $In, 1) or has(c, $In, $v.1)",
                      {{"v.1", {-0.0}}, {"In", {true}}}),
            "a >= 0.0 or b in (0.0, 1, true) or has(c, 0.0, true)");
}

TEST(Filter, RefusesWrongArguments) {
  const double infinite = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const FilterArguments given = {{"none", {}}, {"two", {true, false}}};
  ExpectCanonical(
      {
          {"a = $x", "column 5: no argument is given for '$x'"},
          {"a in $X", "column 6: no argument is given for '$X'"},
          {"a in (1, $x)", "column 10: no argument is given for '$x'"},
          {"has(a, $x)", "column 8: no argument is given for '$x'"},
          {"a = $", "column 6: expected a name after $, found the end"},
          {"a = $ x", "column 6: expected a name after $, found ' x'"},
          {"a = $1", "column 6: expected a name after $, found '1'"},
          {"a = $none", "column 5: expected exactly one value of '$none', found 0"},
          {"a in $none", "column 6: expected at least one value of '$none', found 0"},
          {"has(a, $none)", "column 8: expected at least one value of '$none', found 0"},
          {"a > $two", "column 5: expected exactly one value of '$two', found 2"},
          {"a in ($two)", "column 7: expected exactly one value of '$two', found 2"},
          {"has(a, $two, 1)", "column 8: expected exactly one value of '$two', found 2"},
          {"has(a, 1, $two)", "column 11: expected exactly one value of '$two', found 2"},
          {"$two", "column 1: expected a condition, found '$two'"},
          {"a", "expected only arguments that it names, found also '$none'"},
          {"a in $two", "expected only arguments that it names, found also '$none'"},
      },
      given);
  EXPECT_EQ(Canonical("a = $x", {{"x", {nan}}}),
            "column 5: expected finite numbers in '$x', found nan");
  EXPECT_EQ(Canonical("a in $x", {{"x", {true, -infinite}}}),
            "column 6: expected finite numbers in '$x', found -inf");
  EXPECT_EQ(Canonical("a", {{"\xff", {true}}}),
            "expected only arguments that it names, found also '$\uFFFD'");
}

std::string Repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Filter, LimitsConditions) {
  const std::string some = Repeated("a in (1, 2) or ", 1023);
  EXPECT_EQ(Canonical(some + "has(b, 3)"), some + "has(b, 3)");
  EXPECT_EQ(Canonical(some + "not b and c"),
            "column 15356: expected at most 1024 conditions, found 1025");
}

TEST(Filter, LimitsLevels) {
  const std::string found = "expected at most 64 levels of parentheses and 'not', found 65";
  EXPECT_EQ(Canonical(Repeated("(", 64) + "a" + Repeated(")", 64)), "a = true");
  EXPECT_EQ(Canonical(Repeated("(", 65) + "a" + Repeated(")", 65)), "column 65: " + found);
  EXPECT_EQ(Canonical(Repeated("not ", 64) + "a"), "a = true");
  EXPECT_EQ(Canonical(Repeated("not ", 65) + "a"), "column 257: " + found);
  EXPECT_EQ(Canonical(Repeated("not(", 32) + "a" + Repeated(")", 32)), "a = true");
  EXPECT_EQ(Canonical(Repeated("not(", 33) + "a" + Repeated(")", 33)), "column 129: " + found);
  EXPECT_EQ(Canonical(Repeated("(", 1'000'000)), "column 65: " + found);
  EXPECT_EQ(Canonical(Repeated("not ", 260'000)), "column 257: " + found);
  EXPECT_EQ(Canonical(Repeated("(not a) and ", 1000) + "b"),
            Repeated("not a = true and ", 1000) + "b = true");
  // What needs the most levels: they are as many in the canonical text.
  const std::string nested = Repeated("(a = 1 or b = 1 and ", 64) + "c" + Repeated(")", 64);
  EXPECT_EQ(Canonical("z and " + nested).substr(0, 40), "z = true and (a = 1 or b = 1 and (a = 1 ");
  EXPECT_EQ(Canonical(Repeated("not (z = 1 and ", 32) + "c" + Repeated(")", 32)),
            Repeated("not (z = 1 and ", 32) + "c = true" + Repeated(")", 32));
}

TEST(Filter, LimitsBytes) {
  const std::string longest = "a = '" + std::string(Filter::kMostBytes - 6, 'x') + "'";
  ASSERT_EQ(longest.size(), Filter::kMostBytes);
  EXPECT_EQ(Canonical(longest).size(), Filter::kMostBytes);
  EXPECT_EQ(Canonical(longest + " "), "expected at most 1048576 bytes, found 1048577");
  const std::string text(1 << 20, 'x');
  EXPECT_EQ(Canonical("a = $s", {{"s", {text}}}), "a = \"" + text + "\"");
  EXPECT_EQ(Canonical(Repeated("a = $s or ", 17) + "b", {{"s", {text}}}),
            "column 165: expected at most 16777216 bytes in strings of arguments, found 17825792");
}

TEST(Filter, LimitsValues) {
  const std::string most = "a in (" + Repeated("1,", Filter::kMostValues - 1) + "1)";
  EXPECT_EQ(Canonical(most), "a in (1)");
  EXPECT_EQ(Canonical(most + " or b = 1 or c"), "a in (1) or b = 1 or c = true");
  const std::string found = "expected at most 65536 values in all lists, found ";
  EXPECT_EQ(Canonical(most + " or has(b, 1)"),
            absl::StrCat("column ", most.size() + 5, ": ", found, 65537));
  EXPECT_EQ(Canonical("a in (" + Repeated("1,", Filter::kMostValues) + "1)"),
            "column 1: " + found + "65537");
  std::vector<FilterValue> values;
  for (std::size_t i = 0; i < Filter::kMostValues; ++i)
    values.emplace_back(static_cast<std::int64_t>(i));
  const auto filter = Filter::Parse("has(a, $v)", {{"v", values}});
  ASSERT_TRUE(filter.ok()) << filter.status();
  EXPECT_EQ(filter->root().values.size(), Filter::kMostValues);
  EXPECT_EQ(Canonical("b in $v and a in $v", {{"v", values}}), "column 13: " + found + "131072");
  values.emplace_back(0.5);
  EXPECT_EQ(Canonical("a in $v", {{"v", values}}), "column 1: " + found + "65537");
}

/// Random filters, and texts of them with needless blanks and parentheses.
class RandomFilters {
 public:
  explicit RandomFilters(std::uint64_t seed) : seed_(seed) {}

  /// `outer`: the kind of its parent, which it does not have.
  FilterNode Node(int depth, Kind outer) {
    FilterNode node;
    do {
      node.kind = static_cast<Kind>(depth > 0 ? Below(7) : 3 + Below(4));
    } while (node.kind == outer && node.kind <= Kind::kNot);
    if (node.kind <= Kind::kNot) {
      const std::size_t children = node.kind == Kind::kNot ? 1 : 2 + Below(3);
      for (std::size_t i = 0; i < children; ++i)
        node.children.push_back(Node(depth - 1, node.kind));
      return node;
    }
    node.field = Text(1 + Below(3));
    if (node.kind == Kind::kCompare) node.op = static_cast<Op>(Below(6));
    if (node.kind != Kind::kNull) node.values.push_back(Value());
    return node;
  }

  std::string Write(const FilterNode& node) {
    if (Below(8) == 0) return Blank() + "(" + Inside(node) + Blank() + ")";
    return Inside(node);
  }

 private:
  std::uint64_t Below(std::uint64_t bound) { return RandomBelow(seed_, counter_++, bound); }
  std::string Blank() { return std::vector<std::string>{"", " ", "\n", "\t ", "\r"}[Below(5)]; }

  std::string Text(std::size_t characters) {
    static const std::vector<std::string> some = {"a", "Z",  "_",  ".",        "7", " ",  "`", "\"",
                                                  "'", "\\", "in", "\xc3\xa9", "$", "\n", "or"};
    std::string text;
    for (std::size_t i = 0; i < characters; ++i) text += some[Below(some.size())];
    return text;
  }

  FilterValue Value() {
    switch (Below(6)) {
      case 0:
        return static_cast<std::int64_t>(Random(seed_, counter_++));
      case 1:
        return static_cast<std::int64_t>(Below(5)) - 2;
      case 2:
        return std::ldexp(RandomUnit(seed_, counter_++) - 0.5,
                          static_cast<int>(Below(2000)) - 1000);
      case 3:
        return static_cast<double>(Below(1000)) * 1000;
      case 4:
        return Below(2) == 0;
      default:
        return Text(Below(5));
    }
  }

  std::string Write(const FilterValue& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return absl::StrCat(*integer);
    if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "True" : "faLse";
    if (const auto* number = std::get_if<double>(&value)) return absl::StrFormat("%.17e", *number);
    const bool single = Below(2) == 0;
    std::string text;
    for (const char c : std::get<std::string>(value)) {
      if (c == '\\' || c == (single ? '\'' : '"'))
        text += std::string("\\") + c;
      else if (c == '\n' || (static_cast<unsigned char>(c) < 0x80 && Below(8) == 0))
        text += absl::StrFormat("\\u%04X", static_cast<int>(c));
      else
        text += c;
    }
    return single ? "'" + text + "'" : "\"" + text + "\"";
  }

  std::string WriteField(const std::string& name) {
    std::string text;
    for (const char c : name) text.append(c == '`' ? 2 : 1, c);
    return Blank() + "`" + text + "`" + Blank();
  }

  std::string Inside(const FilterNode& node) {
    static const std::vector<std::string> ops = {"=", "!=", "<", "<=", ">", ">="};
    switch (node.kind) {
      case Kind::kAnd:
      case Kind::kOr: {
        std::string text;
        for (const FilterNode& child : node.children) {
          if (!text.empty()) text += node.kind == Kind::kAnd ? " And " : " OR ";
          const bool needed = child.kind == Kind::kOr;
          text += needed ? "(" + Write(child) + ")" : Write(child);
        }
        return text;
      }
      case Kind::kNot: {
        const FilterNode& child = node.children[0];
        const bool needed = child.kind == Kind::kAnd || child.kind == Kind::kOr;
        return "NOT " + (needed ? "(" + Write(child) + ")" : Write(child));
      }
      case Kind::kCompare:
        return WriteField(node.field) + ops[static_cast<std::size_t>(node.op)] + Blank() +
               Write(node.values[0]);
      case Kind::kIn:
        return WriteField(node.field) + "IN" + Blank() + "(" + Write(node.values[0]) + ")";
      case Kind::kHas:
        return "hAs(" + WriteField(node.field) + "," + Blank() + Write(node.values[0]) + ")";
      case Kind::kNull:
        return WriteField(node.field) + "is NULL" + Blank();
    }
    return "";
  }

  const std::uint64_t seed_;
  std::uint64_t counter_ = 0;
};

TEST(Filter, ReadsAnyTextOfATree) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    RandomFilters random(seed);
    const FilterNode tree = random.Node(static_cast<int>(seed % 5), Kind::kNull);
    const std::string text = random.Write(tree), other_text = random.Write(tree);
    const auto filter = Filter::Parse(text);
    ASSERT_TRUE(filter.ok()) << filter.status() << " of " << text;
    EXPECT_TRUE(filter->root() == tree) << text << " became " << filter->text();
    EXPECT_EQ(Canonical(text), filter->text());
    EXPECT_EQ(Canonical(other_text), filter->text());
  }
}

}  // namespace
}  // namespace hmann
