// Codes as a user meets them: from build to info, verify and search; promote removes them
// and brings them back.
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

using nlohmann::json;

const char kBase[] = "datasets/sample/base.u8bin";
const char kQueries[] = "datasets/sample/query.u8bin";

void Succeeds(const Outcome& ran) { ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err; }

TEST(Codes, AreBuiltSearchedAndReplaced) {
  const TestFolder folder("codes");
  const std::string index = folder / "a.hmann";
  const auto info = [&] { return json::parse(Hmann({"info", index, "--json"}).out); };
  const auto search = [&] {
    return Hmann({"search", index, "--queries", kQueries, "--rows", "10", "--mode", "quantized",
                  "--ef-l0", "30", "--json"});
  };
  Succeeds(Hmann({"build", "--base", kBase, "--out", index, "--rows", "2000", "--m", "8",
                  "--promote", "0.1", "--bits", "0", "--alpha", "1.3"}));
  EXPECT_FALSE(info()["bytes"].contains("codes"));
  EXPECT_EQ(search().exit_code, 1);
  Succeeds(Hmann({"promote", index, "--bits", "1"}));
  EXPECT_EQ(info()["bytes"]["codes"]["bytes"], 1800 * (128 / 8 + 4));
  Succeeds(Hmann({"verify", index}));
  const Outcome searched = search();
  Succeeds(searched);
  EXPECT_GT(json::parse(searched.out)["estimates"], 0);
  Succeeds(Hmann({"promote", index, "--bits", "0"}));
  EXPECT_FALSE(info()["bytes"].contains("codes"));
  Succeeds(Hmann({"promote", index, "--bits", "4", "--promote", "0.02"}));
  EXPECT_EQ(info()["bytes"]["codes"]["bytes"], 1960 * (128 / 2 + 4));
  EXPECT_EQ(info()["alpha"], 1.3) << "carried on";
}

}  // namespace
}  // namespace hmann
