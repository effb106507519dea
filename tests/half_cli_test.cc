// f16 as a user meets it: files, builds from f32, queries of either type, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

void Succeeds(const Outcome& ran) { ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err; }

void FailsNaming(const Outcome& ran, const std::string& part) {
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_THAT(ran.err, HasSubstr(part));
}

class Half : public testing::Test {
 protected:
  Half() : folder_("half") {
    Generate("base.fbin", 2000, 0);
    Generate("query.fbin", 50, 2000);
  }
  void Generate(const std::string& name, int n, int first) {
    Succeeds(Hmann({"data", "generate", "--n", std::to_string(n), "--first", std::to_string(first),
                    "--dim", "40", "--clusters", "12", "--out", folder_ / name}));
  }
  json Search(const std::string& index, const std::string& queries) {
    const Outcome ran = Hmann({"search", folder_ / index, "--queries", folder_ / queries,
                               "--groundtruth", folder_ / "truth.gt", "--k", "10", "--json"});
    Succeeds(ran);
    return json::parse(ran.out);
  }
  TestFolder folder_;
};

TEST_F(Half, IsConvertedBuiltAndSearched) {
  for (const char* name : {"base", "query"}) {
    Succeeds(Hmann({"data", "convert", folder_ / std::string(name) + ".fbin",
                    folder_ / std::string(name) + ".f16bin"}));
  }
  const json info = json::parse(Hmann({"data", "info", folder_ / "base.f16bin", "--json"}).out);
  EXPECT_EQ(info["dtype"], "f16");
  EXPECT_EQ(info["vector_bytes"], 2000 * 40 * 2);
  Succeeds(Hmann({"data", "groundtruth", "--base", folder_ / "base.f16bin", "--queries",
                  folder_ / "query.f16bin", "--metric", "cosine", "--k", "10", "--out",
                  folder_ / "truth.gt"}));
  Succeeds(Hmann({"build", "--base", folder_ / "base.fbin", "--dtype", "f16", "--metric", "cosine",
                  "--out", folder_ / "a.hmann"}));
  Succeeds(Hmann({"build", "--base", folder_ / "base.f16bin", "--metric", "cosine", "--out",
                  folder_ / "b.hmann"}));
  for (const char* index : {"a.hmann", "b.hmann"}) {
    Succeeds(Hmann({"verify", folder_ / index}));
    EXPECT_EQ(json::parse(Hmann({"info", folder_ / index, "--json"}).out)["dtype"], "f16");
    for (const char* queries : {"query.fbin", "query.f16bin"})
      EXPECT_GT(Search(index, queries)["recall"], 0.9) << index << " " << queries;
  }
}

TEST_F(Half, OfAnotherKindThanMeantIsNamed) {
  Succeeds(Hmann({"data", "convert", folder_ / "base.fbin", folder_ / "base.f16bin"}));
  Succeeds(Hmann({"build", "--base", folder_ / "base.fbin", "--out", folder_ / "f32.hmann"}));
  FailsNaming(Hmann({"search", folder_ / "f32.hmann", "--queries", folder_ / "base.f16bin"}),
              "expected vectors of 40 x f32 as in the index, found 40 x f16");
  FailsNaming(Hmann({"build", "--base", folder_ / "base.f16bin", "--dtype", "f32", "--out",
                     folder_ / "x.hmann"}),
              "holds f16");
  const std::string halves = ReadFile(folder_ / "base.f16bin");
  WriteFile(folder_ / "halves.fbin", halves);
  FailsNaming(Hmann({"build", "--base", folder_ / "halves.fbin", "--out", folder_ / "x.hmann"}),
              "its content is .f16bin");
  WriteFile(folder_ / "cut.f16bin", halves.substr(0, halves.size() - 1));
  FailsNaming(Hmann({"build", "--base", folder_ / "cut.f16bin", "--out", folder_ / "x.hmann"}),
              "of 2 bytes");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.hmann"));
}

}  // namespace
}  // namespace hmann
