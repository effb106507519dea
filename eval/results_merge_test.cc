#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "eval/results.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Merge : public testing::Test {
 protected:
  void SetUp() override { folder_ = absl::StrCat(testing::TempDir(), "merge_test.", ::getpid()); }
  void TearDown() override { fs::remove_all(folder_); }

  /// Results of systems that all need `seconds` for 100 queries at recall 0.95; of the
  /// benchmark, `changed`.
  std::string File(const std::string& name, const std::vector<std::string>& systems, double seconds,
                   const Json& changed = Json::object(), double n = 1000) {
    Json head = {{"kind", "benchmark"},
                 {"version", kResultsVersion},
                 {"title", name},
                 {"data",
                  {{"queries", absl::StrCat(name, "/q.fbin")},
                   {"dim", 8},
                   {"dtype", "f32"},
                   {"metric", "l2"},
                   {"k", 10},
                   {"query_count", 100}}},
                 {"build", Json::object()},
                 {"environment", {{"cpu", "A"}, {"cores", 2}, {"memory_bytes", 1}, {"time", name}}},
                 {"rounds", 1},
                 {"clock", "wall"},
                 {"reference", "hnswlib"},
                 {"targets", {0.9}},
                 {"shapes", Json::array()}};
    head.merge_patch(changed);
    std::vector<Json> lines = {head, {{"kind", "data"}, {"data", n}, {"synthetic", false}}};
    for (const std::string& system : systems) {
      const Json curve = {{"name", system},
                          {"match", Json::object()},
                          {"kind", "measured"},
                          {"aside", false},
                          {"beside", Json::object()}};
      lines.push_back({{"kind", "system"},
                       {"system", system},
                       {"place", Json::object()},
                       {"synthetic", false},
                       {"device", systems[0]},
                       {"curves", {curve}},
                       {"data", n}});
      const double taken = system == "hnswlib" ? 2 * seconds : seconds;
      lines.push_back({{"kind", "run"},
                       {"system", system},
                       {"setting", {{"ef", 10}}},
                       {"recall", 0.95},
                       {"seconds", taken},
                       {"cpu_seconds", taken},
                       {"data", n}});
    }
    fs::create_directories(folder_ + "/" + name);
    const std::string path = absl::StrCat(folder_, "/", name, "/results.jsonl");
    EXPECT_TRUE(WriteResults(path, lines).ok());
    return path;
  }

  std::string folder_;
};

/// "NAME QPS RATIO" of each row at the first target.
std::vector<std::string> Rows(const Json& figures) {
  std::vector<std::string> rows;
  for (const Json& row : figures["systems"]) {
    const Json& at = row["targets"][0];
    rows.push_back(absl::StrCat(row["name"].get<std::string>(), " ", JsonText(at["qps"]), " ",
                                JsonText(at["ratio"])));
  }
  return rows;
}

TEST_F(Merge, SystemsOfTheSameNameAreToldApartAndComparedWithTheirOwn) {
  const std::string before = File("before", {"hmann", "hnswlib"}, 1),
                    after = File("after", {"hmann", "hnswlib", "new"}, 0.5, {{"targets", {0.8}}}),
                    deep = File("deep/after", {"hmann"}, 0.25);
  const auto lines = MergeResults({before, after, deep});
  ASSERT_TRUE(lines.ok()) << lines.status();
  const Json figures = FiguresOf(*lines);
  const std::string in = absl::StrCat(" (", folder_);  // two folders are called "after"
  EXPECT_THAT(Rows(figures),
              ElementsAre("hmann 100.0 2.0", "hnswlib 50.0 1.0", "hmann" + in + "/after) 200.0 2.0",
                          "hnswlib" + in + "/after) 100.0 1.0", "new 200.0 2.0",
                          "hmann" + in + "/deep/after) 400.0 null"));
  EXPECT_EQ(figures["targets"], Json({0.8, 0.9}));
  EXPECT_EQ(figures["title"], "before");
  EXPECT_EQ(figures["sizes"].size(), 1u) << "all have one";
  ASSERT_EQ(figures["merged"].size(), 3u);
  EXPECT_EQ(figures["merged"][1]["file"], after);
  EXPECT_EQ(figures["merged"][1]["environment"]["time"], "after");
  const std::string both = folder_ + "/both.jsonl";
  ASSERT_TRUE(WriteResults(both, *lines).ok());
  EXPECT_EQ(FiguresOf(*MergeResults({both})), figures) << "what is written can be read again";
  const auto more = MergeResults({both, File("more", {"hmann"}, 1)});
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ(FiguresOf(*more)["merged"].size(), 4u);
}

TEST_F(Merge, SizesJoinUnderOneName) {
  const auto lines =
      MergeResults({File("small", {"43 B"}, 1), File("large", {"43 B"}, 2, Json::object(), 5e4)});
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_THAT(Rows(FiguresOf(*lines)), ElementsAre("43 B 100.0 null", "43 B 50.0 null"));
  EXPECT_EQ(FiguresOf(*lines)["sizes"].size(), 2u);
}

TEST_F(Merge, WhatCannotBeComparedIsRefusedByName) {
  const std::string first = File("first", {"hmann"}, 1);
  const auto error = [&](const Json& changed) {
    return std::string(MergeResults({first, File("other", {"x"}, 1, changed)}).status().message());
  };
  EXPECT_EQ(error({{"data", {{"queries", "elsewhere/q.fbin"}}}}), "") << "the same file";
  EXPECT_THAT(error({{"data", {{"queries", "p.fbin"}}}}),
              HasSubstr("other/results.jsonl: queries: expected \"q.fbin\", as in "));
  EXPECT_THAT(error({{"data", {{"n", 7}}}}), HasSubstr("n: expected null"));
  EXPECT_THAT(error({{"clock", "cpu"}}), HasSubstr("clock: expected \"wall\""));
  EXPECT_THAT(error({{"environment", {{"cpu", "B"}}}}), HasSubstr("cpu: expected \"A\""));
  EXPECT_THAT(std::string(MergeResults({first, first}).status().message()), HasSubstr("once"));
  EXPECT_EQ(MergeResults({folder_ + "/gone"}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hmann::eval
