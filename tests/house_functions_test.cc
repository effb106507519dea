// What counts as a function for the house rules: samples by hand, and the whole tree
// against universal-ctags.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/house.h"

namespace hmann {

void PrintTo(const Function& function, std::ostream* out) {
  *out << function.name << " " << function.first_line << " " << function.lines;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

auto Is(const std::string& name, std::size_t first_line, std::size_t lines) {
  return ::testing::AllOf(::testing::Field(&Function::name, name),
                          ::testing::Field(&Function::first_line, first_line),
                          ::testing::Field(&Function::lines, lines));
}

std::vector<Function> In(const std::string& text) { return Functions({"x.cc", text, {}}); }

std::string Steps(std::size_t count) {
  std::string steps;
  for (std::size_t i = 0; i < count; ++i) absl::StrAppend(&steps, "  if (i) { Step(); }\n");
  return steps;
}

TEST(Functions, SignaturesGoOnUnderTheirParenthesis) {
  EXPECT_THAT(In(absl::StrCat("namespace a {\n\nabsl::Status Long(int x,\n                  int "
                              "y,\n                  int z) {\n",
                              Steps(60), "}\n\n}  // namespace a\n")),
              ElementsAre(Is("Long", 3, 64)));
  EXPECT_THAT(In("std::vector<int>\nMany(std::function<int(int)> f,\n     Options options = {},\n  "
                 "   int = 0) {\n}\n"),
              ElementsAre(Is("Many", 2, 4)));
  EXPECT_THAT(
      In("auto Sum(int a,\n         int b)\n    -> std::array<int, 2>\n{\n  return {a, b};\n}\n"),
      ElementsAre(Is("Sum", 1, 6)));
}

TEST(Functions, ConstructorsInitializeOverLines) {
  EXPECT_THAT(In(absl::StrCat("Index::Index(int a, int b)\n    : Base<int>{a},\n      x_b(b),\n    "
                              "  x_c{{1, 2}, 3},\n      x_d{} {\n",
                              Steps(56), "}\n")),
              ElementsAre(Is("Index::Index", 1, 62)));
  EXPECT_THAT(In("class Index {\n public:\n  explicit Index(int a) : x_a{a} {\n    Go();\n  }\n  "
                 "~Index() { Stop(); }\n private:\n  int "
                 "x_a{3};\n};\n"),
              ElementsAre(Is("Index", 3, 3), Is("~Index", 6, 1)));
  EXPECT_THAT(In("Index::Index(Rows rows) noexcept : x_rows(std::move(rows)), x_sum([&] { return "
                 "1; }()) {}\nIndex::~Index() {\n}\n"),
              ElementsAre(Is("Index::Index", 1, 1), Is("Index::~Index", 2, 2)));
}

TEST(Functions, MembersAndOperators) {
  EXPECT_THAT(In(absl::StrCat(
                  "template <typename T, std::enable_if_t<(T::n > 3)>* = nullptr>\nstruct Beam : "
                  "Base<T> {\n  enum class Kind { kOne };\n"
                  "  struct Inner {\n    void Deep(int a,\n              int b) const override {\n",
                  Steps(61), "    }\n  };\n  void Declared(int a);\n  Kind kind = {};\n};\n")),
              ElementsAre(Is("Deep", 5, 64)));
  EXPECT_THAT(In("bool operator==(const A& a, const A& b) {\n}\nstruct B {\n  B& operator=(B&&) = "
                 "default;\n  int operator()(int a) const { return "
                 "a; }\n"
                 "  explicit operator bool() const {\n  }\n  int operator[](int i) {\n  }\n  "
                 "friend bool operator<(B, B) { return false; }\n};\n"),
              ElementsAre(Is("operator==", 1, 2), Is("operator()", 5, 1), Is("operator bool", 6, 2),
                          Is("operator[]", 8, 2), Is("operator<", 10, 1)));
}

TEST(Functions, TemplatesAndAttributes) {
  EXPECT_THAT(In("template <typename A>\n  requires std::is_arithmetic_v<A>\nvoid F(A a) "
                 "{\n}\ntemplate <>\nvoid F<int>(int a) {\n}\n"),
              ElementsAre(Is("F", 3, 2), Is("F", 6, 2)));
  EXPECT_THAT(In("__attribute__((noinline)) [[nodiscard]] int G() {\n}\nextern \"C\" int H(const "
                 "char* a, unsigned long b) {\n}\n"),
              ElementsAre(Is("G", 1, 2), Is("H", 3, 2)));
  EXPECT_THAT(In("TEST(Some, Thing) {\n  struct Local {\n    void Inside() {}\n  };\n}\n"),
              ElementsAre(Is("TEST", 1, 5)));
}

TEST(Functions, NothingElseIsOne) {
  EXPECT_THAT(
      In("const auto kAdd = [](int a) {\n  return a;\n};\nstatic const std::map<int, int> kMap{{1, "
         "2}};\nenum Kind { kOne "
         "};\nunion U { int a; };\n"
         "#define BODY(x) \\\n  void x() { \\\n  }\n// void Comment() {}\nconst char* kText = "
         "\"void F() {}\";\nint Declared(int "
         "a);\nint x{1};\n"
         "std::vector<int> Made({1, 2});\nstd::unique_ptr<A> a = Make([] { return 1; });\n"),
      IsEmpty());
}

/// File, line of the name, line of the last brace.
using Place = std::tuple<std::string, std::size_t, std::size_t>;

std::set<Place> PlacesByCtags(const std::vector<std::string>& paths) {
  std::vector<std::string> command = {
      "ctags", "-x", "--_xformat=%F %n %{end} %N", "--languages=C++", "--kinds-C++=f", "-f", "-"};
  command.insert(command.end(), paths.begin(), paths.end());
  std::set<Place> places;
  std::istringstream lines(OutputOf(command));
  std::string path, name;
  std::size_t first = 0, last = 0;
  while (lines >> path >> first >> last >> std::ws && std::getline(lines, name)) {
    if (!name.starts_with("__anon"))
      places.emplace(path, first, last);  // a lambda, which is part of its function
  }
  return places;
}

std::vector<std::string> Without(const std::set<Place>& all, const std::set<Place>& those) {
  std::vector<std::string> rest;
  for (const Place& place : all) {
    if (!those.contains(place)) rest.push_back(absl::StrJoin(place, ":"));
  }
  return rest;
}

TEST(Functions, OfTheTreeAreThoseThatCtagsSees) {
  std::vector<std::string> paths;
  std::set<Place> ours;
  for (const SourceFile& file : ReadTree(std::filesystem::current_path())) {
    if (!file.Cpp() || file.Test()) continue;
    paths.push_back(file.path);
    for (const Function& function : Functions(file))
      ours.emplace(file.path, function.first_line, function.first_line + function.lines - 1);
  }
  const std::set<Place> theirs = PlacesByCtags(paths);
  ASSERT_GT(theirs.size(), 2000u) << "universal-ctags is missing: ./dev setup";
  EXPECT_THAT(Without(theirs, ours), IsEmpty());
  // Ctags reads only the first branch of an #if; this one stands behind #else.
  EXPECT_THAT(Without(ours, theirs),
              ElementsAre(::testing::StartsWith("index/tiers/stream_copy.cc:")));
}

}  // namespace
}  // namespace hmann
