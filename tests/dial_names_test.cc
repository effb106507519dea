// Every dial and every counter is found wherever a user may look for it: on the wire, in
// --help, in JSON, in the tuned table and what describes it, and on the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "hmann/counters.h"
#include "hmann/dial_table.h"
#include "hmann/v1/search.pb.h"
#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

using google::protobuf::FieldDescriptor;
using nlohmann::json;
using ::testing::HasSubstr;

std::string Text(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(DialNames, TheWireHasAFieldForEachAndNoOther) {
  const auto* const message = v1::SearchOptions::descriptor();
  for (const Dial& dial : DialTable()) {
    SCOPED_TRACE(dial.name);
    const FieldDescriptor* const field = message->FindFieldByName(std::string(dial.name));
    ASSERT_NE(field, nullptr) << "search.proto lacks it";
    if (!dial.words.empty()) {
      ASSERT_EQ(field->cpp_type(), FieldDescriptor::CPPTYPE_ENUM);
      ASSERT_EQ(field->enum_type()->value_count(), static_cast<int>(dial.words.size()) + 1);
      for (std::size_t i = 0; i < dial.words.size(); ++i) {
        const std::string name = absl::StrReplaceAll(
            absl::StrCat(std::string(dial.name), "_", std::string(dial.words[i])), {{"-", "_"}});
        EXPECT_EQ(absl::AsciiStrToLower(
                      field->enum_type()->FindValueByNumber(static_cast<int>(i) + 1)->name()),
                  name);
      }
    } else {
      EXPECT_EQ(field->cpp_type(),
                dial.whole ? FieldDescriptor::CPPTYPE_UINT32 : FieldDescriptor::CPPTYPE_FLOAT);
      EXPECT_TRUE(field->has_presence()) << "0 is not the same as absent";
    }
  }
  const std::set<std::string> others = {"k", "recall", "latency_us", "budget_us", "counters"};
  for (int i = 0; i < message->field_count(); ++i) {
    const std::string& name = message->field(i)->name();
    EXPECT_TRUE(FindDial(name) != nullptr || others.contains(name)) << name << " is no dial";
  }
}

TEST(DialNames, TheWireHasEveryCounterAndNoOther) {
  const auto* const message = v1::Counters::descriptor();
  EXPECT_EQ(message->field_count(), static_cast<int>(CounterNames().size()));
  for (const CounterName& counter : CounterNames()) {
    const FieldDescriptor* const field = message->FindFieldByName(std::string(counter.name));
    ASSERT_NE(field, nullptr) << counter.name;
    EXPECT_EQ(field->cpp_type(), FieldDescriptor::CPPTYPE_UINT64);
  }
}

TEST(DialNames, HelpOfSearchAndQueryNamesEach) {
  for (const char* command : {"search", "query"}) {
    const std::string help = Hmann({command, "--help"}).out;
    for (const Dial& dial : DialTable()) {
      const std::string option =
          absl::StrCat("--", absl::StrReplaceAll(std::string(dial.name), {{"_", "-"}}));
      EXPECT_TRUE(std::regex_search(help, std::regex(absl::StrCat("\n *", option, "\\b"))))
          << command << " --help lacks " << option;
    }
  }
}

TEST(DialNames, FormatDescribesTheTunedTableWithEach) {
  const std::string format = Text("index/format/FORMAT.md");
  const std::size_t table = format.find("## The tuned table");
  ASSERT_NE(table, std::string::npos);
  for (const Dial& dial : DialTable())
    EXPECT_THAT(format.substr(table), HasSubstr(absl::StrCat("`", std::string(dial.name), "`")));
}

TEST(DialNames, JsonAndTunedTableHaveThem) {
  const std::string index = absl::StrCat(::testing::TempDir(), "/dial_names.hmann");
  ASSERT_EQ(Hmann({"build", "--base", "datasets/sample/base.u8bin", "--rows", "3000", "--out",
                   index, "--promote", "0.1"})
                .exit_code,
            0);
  const auto searched =
      Hmann({"search", index, "--queries", "datasets/sample/query.u8bin", "--rows", "5", "--walk",
             "quantised", "--nprobe", "8", "--epsilon", "0.2", "--json"});
  ASSERT_EQ(searched.exit_code, 0) << searched.err;
  const json figures = json::parse(searched.out);
  for (const Dial& dial : DialTable()) {
    EXPECT_EQ(figures.contains(std::string(dial.name)), dial.walks.Contains(WalkKind::kQuantised))
        << dial.name;
  }
  for (const CounterName& counter : CounterNames())
    EXPECT_TRUE(figures.contains(std::string(counter.name))) << counter.name;

  const auto tuned =
      Hmann({"tune", index, "--queries", "datasets/sample/query.u8bin", "--learn", "10", "--recall",
             "0.9", "--query-threads", "1", "--accept-noise", "--json"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  const json table = json::parse(Text(absl::StrCat(index, ".tuned")));
  std::set<std::string> stored;
  for (const json& setting : table["entries"][0]["settings"]) {
    for (const auto& [key, value] : setting.items()) stored.insert(key);
  }
  for (const Dial& dial : DialTable()) {
    const bool of_every_walk = dial.walks.Contains(WalkKind::kMultiStart) &&
                               dial.walks.Contains(WalkKind::kBestFirst) &&
                               dial.walks.Contains(WalkKind::kQuantised);
    EXPECT_TRUE(!of_every_walk || stored.contains(std::string(dial.name))) << dial.name;
  }
}

}  // namespace
}  // namespace hmann
