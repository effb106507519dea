// `--codes` as a user meets it: from build to info, verify and search, and from one place
// to the other with promote.
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

using nlohmann::json;

const char kBase[] = "datasets/sample/base.u8bin";
const char kQueries[] = "datasets/sample/query.u8bin";

void Succeeds(const Outcome& ran) { ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err; }

TEST(Codes, OfLinksAreBuiltSearchedAndReplaced) {
  const TestFolder folder("edges");
  const std::string index = folder / "a.hmann";
  Succeeds(Hmann({"build", "--base", kBase, "--out", index, "--rows", "2000", "--m", "8",
                  "--promote", "0.1", "--codes", "link", "--alpha", "1.3"}));
  const auto info = [&] { return json::parse(Hmann({"info", index, "--json"}).out); };
  EXPECT_EQ(info()["bytes"]["link_codes"]["bytes"], 2000 * 16 * (128 / 4 + 4));
  EXPECT_FALSE(info()["bytes"].contains("codes"));
  Succeeds(Hmann({"verify", index}));
  const Outcome searched = Hmann({"search", index, "--queries", kQueries, "--rows", "10", "--walk",
                                  "quantised", "--ef-l0", "30", "--json"});
  Succeeds(searched);
  EXPECT_GT(json::parse(searched.out)["estimates"], 0);
  EXPECT_EQ(Hmann({"search", index, "--queries", kQueries, "--rows", "10", "--walk", "quantised",
                   "--nprobe", "3"})
                .exit_code,
            1);
  Succeeds(Hmann({"promote", index, "--codes", "node", "--bits", "1"}));
  EXPECT_FALSE(info()["bytes"].contains("link_codes"));
  EXPECT_TRUE(info()["bytes"].contains("codes"));
  Succeeds(Hmann({"promote", index, "--codes", "none"}));
  EXPECT_FALSE(info()["bytes"].contains("codes"));
  Succeeds(Hmann({"promote", index, "--codes", "link", "--promote", "0.02"}));
  EXPECT_EQ(info()["bytes"]["link_codes"]["bytes"], 2000 * 16 * (128 / 4 + 4));
  EXPECT_EQ(info()["alpha"], 1.3) << "carried on";
}

}  // namespace
}  // namespace hmann
