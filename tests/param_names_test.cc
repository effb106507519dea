// Every parameter and every counter appears wherever a user may look for it: on the wire,
// in --help, in JSON, in the tuned table and its description, and on the page.
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
#include "hmann/param_table.h"
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

TEST(ParamNames, TheWireHasAFieldForEachAndNoOther) {
  const auto* const message = v1::SearchParams::descriptor();
  for (const ParamInfo& param : ParamTable()) {
    SCOPED_TRACE(param.name);
    const FieldDescriptor* const field = message->FindFieldByName(std::string(param.name));
    ASSERT_NE(field, nullptr) << "search.proto lacks it";
    if (!param.words.empty()) {
      ASSERT_EQ(field->cpp_type(), FieldDescriptor::CPPTYPE_ENUM);
      ASSERT_EQ(field->enum_type()->value_count(), static_cast<int>(param.words.size()) + 1);
      for (std::size_t i = 0; i < param.words.size(); ++i) {
        const std::string name = absl::StrReplaceAll(
            absl::StrCat(std::string(param.name), "_", std::string(param.words[i])), {{"-", "_"}});
        EXPECT_EQ(absl::AsciiStrToLower(
                      field->enum_type()->FindValueByNumber(static_cast<int>(i) + 1)->name()),
                  name);
      }
    } else {
      EXPECT_EQ(field->cpp_type(),
                param.whole ? FieldDescriptor::CPPTYPE_UINT32 : FieldDescriptor::CPPTYPE_FLOAT);
      EXPECT_TRUE(field->has_presence()) << "0 is not the same as absent";
    }
  }
  const std::set<std::string> others = {"k",        "recall", "latency_us",       "budget_us",
                                        "counters", "filter", "filter_arguments", "max_distance"};
  for (int i = 0; i < message->field_count(); ++i) {
    const std::string& name = message->field(i)->name();
    EXPECT_TRUE(FindParam(name) != nullptr || others.contains(name)) << name << " is no param";
  }
}

TEST(ParamNames, TheWireHasEveryCounterAndNoOther) {
  const auto* const message = v1::Counters::descriptor();
  EXPECT_EQ(message->field_count(), static_cast<int>(CounterNames().size()));
  for (const CounterName& counter : CounterNames()) {
    const FieldDescriptor* const field = message->FindFieldByName(std::string(counter.name));
    ASSERT_NE(field, nullptr) << counter.name;
    EXPECT_EQ(field->cpp_type(), FieldDescriptor::CPPTYPE_UINT64);
  }
}

TEST(ParamNames, HelpOfSearchAndQueryNamesEach) {
  for (const char* command : {"search", "query"}) {
    const std::string help = Hmann({command, "--help-all"}).out;
    for (const ParamInfo& param : ParamTable()) {
      const std::string option =
          absl::StrCat("--", absl::StrReplaceAll(std::string(param.name), {{"_", "-"}}));
      EXPECT_TRUE(std::regex_search(help, std::regex(absl::StrCat("\n *", option, "\\b"))))
          << command << " --help lacks " << option;
    }
  }
}

TEST(ParamNames, FormatDescribesTheTunedTableWithEach) {
  const std::string format = Text("index/format/FORMAT.md");
  const std::size_t table = format.find("## The tuned table");
  ASSERT_NE(table, std::string::npos);
  for (const ParamInfo& param : ParamTable())
    EXPECT_THAT(format.substr(table), HasSubstr(absl::StrCat("`", std::string(param.name), "`")));
}

TEST(ParamNames, JsonAndTunedTableHaveThem) {
  const std::string index = absl::StrCat(::testing::TempDir(), "/param_names.hmann");
  ASSERT_EQ(Hmann({"build", "--base", "datasets/sample/base.u8bin", "--rows", "3000", "--out",
                   index, "--promote", "0.1"})
                .exit_code,
            0);
  const auto searched =
      Hmann({"search", index, "--queries", "datasets/sample/query.u8bin", "--rows", "5", "--mode",
             "quantized", "--nprobe", "8", "--epsilon", "0.2", "--json"});
  ASSERT_EQ(searched.exit_code, 0) << searched.err;
  const json figures = json::parse(searched.out);
  for (const ParamInfo& param : ParamTable()) {
    EXPECT_EQ(figures.contains(std::string(param.name)),
              param.modes.Contains(SearchMode::kQuantized))
        << param.name;
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
  for (const ParamInfo& param : ParamTable()) {
    const bool of_every_mode = param.modes.Contains(SearchMode::kMultiStart) &&
                               param.modes.Contains(SearchMode::kGraph) &&
                               param.modes.Contains(SearchMode::kQuantized);
    EXPECT_TRUE(!of_every_mode || stored.contains(std::string(param.name))) << param.name;
  }
}

}  // namespace
}  // namespace hmann
