// `hmann tune`, and targets of `hmann search`: the real binary on the sample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const char kQueries[] = "datasets/sample/query.u8bin";
const char kTruth[] = "datasets/sample/query.gt100";

class TuneCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new std::string(absl::StrCat(testing::TempDir(), "/tune_cli_", ::getpid()));
    std::filesystem::create_directories(*folder_);
    const Outcome built = Hmann({"build", "--base", "datasets/sample/base.u8bin", "--out", Index(),
                                 "--rows", "3000", "--m", "8", "--promote", "0.1"});
    ASSERT_EQ(built.exit_code, 0) << built.err;
    const Outcome tuned = Hmann({"tune", Index(), "--queries", kQueries, "--recall", "0.9,0.999",
                                 "--latency", "1ms", "--learn", "100", "--json", "--accept-noise"});
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
    report_ = new json(json::parse(tuned.out));
  }
  static void TearDownTestSuite() {
    std::filesystem::remove_all(*folder_);
    delete folder_;
    delete report_;
  }
  static std::string Index() { return *folder_ + "/i.hmann"; }
  static Outcome Search(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"search", Index(), "--queries", kQueries};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Hmann(arguments);
  }

  static inline std::string* folder_ = nullptr;
  static inline json* report_ = nullptr;
};

TEST_F(TuneCommand, ReportsItsChoicesAndWhatBecameOfTheRest) {
  const json& tuned = (*report_)["tuned"][0];
  EXPECT_EQ((*report_)["table"], Index() + ".tuned");
  EXPECT_EQ(tuned["k"], 10);
  EXPECT_EQ(tuned["learning_queries"], 100);
  ASSERT_EQ(tuned["comparisons"].size(), 2u);
  for (const json& comparison : tuned["comparisons"])
    EXPECT_LT(comparison["dropped"],
              comparison["settings"].get<int>() + comparison["unable"].get<int>());
  EXPECT_GT(tuned["equation"]["fast_ns"], 0);
  EXPECT_GT(tuned["front"].size(), 3u);
  ASSERT_EQ(tuned["choices"].size(), 3u);
  EXPECT_EQ(tuned["choices"][0]["met"], true);
  EXPECT_EQ(tuned["choices"][1]["met"], false)
      << "a hundred queries cannot prove a recall of 0.999";
}

TEST_F(TuneCommand, ASearchTakesTheTunedParams) {
  const json& choice = (*report_)["tuned"][0]["choices"][0];
  const Outcome ran = Search({"--recall", "0.9", "--out", *folder_ + "/tuned.jsonl", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json found = json::parse(ran.out);
  EXPECT_EQ(found["target_recall"], 0.9);
  EXPECT_NEAR(found["predicted_recall"].get<double>(), choice["recall"].get<double>(), 1e-4);
  EXPECT_EQ(found["predicted_for"], "queries like query.u8bin");
  // The same parameters given by hand give the same answers for the same work.
  std::vector<std::string> params = {"--out", *folder_ + "/by_hand.jsonl", "--json"};
  for (const char* name :
       {"mode", "ef_l1", "ef_l0", "nprobe", "beam_width", "error_bound", "epsilon"}) {
    if (!choice.contains(name)) continue;
    params.push_back(absl::StrCat("--", absl::StrReplaceAll(name, {{"_", "-"}})));
    params.push_back(choice[name].is_string() ? choice[name].get<std::string>()
                                              : choice[name].dump());
  }
  if (choice["mode"] == "graph" && !choice.contains("beam_width"))
    params.insert(params.end(), {"--beam-width", "1"});
  if (choice["mode"] == "graph" && !choice.contains("epsilon"))
    params.insert(params.end(), {"--epsilon", "-1"});
  const Outcome by_hand = Search(params);
  ASSERT_EQ(by_hand.exit_code, 0) << by_hand.err;
  EXPECT_TRUE(ReadFile(*folder_ + "/tuned.jsonl") == ReadFile(*folder_ + "/by_hand.jsonl"));
  for (const char* counter : {"distances_fast", "distances_slow", "node_reads", "expanded_l0"}) {
    EXPECT_EQ(found[counter], json::parse(by_hand.out)[counter]) << counter;
  }
  EXPECT_EQ(Search({"--latency", "1s"}).exit_code, 0);
}

TEST_F(TuneCommand, ABudgetIsCounted) {
  const Outcome ran = Search({"--mode", "graph", "--ef-l0", "3000", "--budget", "1us", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(json::parse(ran.out)["cut_short"], 200);
}

TEST_F(TuneCommand, WhatCannotBeIsNamed) {
  const auto expect = [](const Outcome& ran, int code, const std::string& words) {
    EXPECT_EQ(ran.exit_code, code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(words));
  };
  expect(Search({"--latency", "1ns"}), 1, "latency 0.001us cannot be met");
  expect(Search({"--latency", "1s", "--k", "3"}), 0, "");  // timed at once, for want of a table
  expect(Search({"--latency", "1ns", "--k", "3"}), 1, "latency 0.001us cannot be met");
  expect(Search({"--recall", "0.9", "--ef-l0", "3"}), 2, "--recall");
  expect(Search({"--recall", "1.5"}), 2, "--recall");
  expect(Hmann({"tune", Index(), "--latency", "soon"}), 2, "--latency");
  expect(Hmann({"tune", Index(), "--groundtruth", kTruth}), 2, "--queries");
  expect(Hmann({"tune", Index(), "--queries", kQueries, "--groundtruth", kQueries}), 1, kQueries);
  const std::string other = Index() + ".other";
  expect(Hmann({"promote", Index(), "--out", other, "--queries", "nowhere"}), 1, "nowhere");
  EXPECT_FALSE(std::filesystem::exists(other));
  std::ofstream(Index() + ".tuned") << "{}";
  expect(Search({"--recall", "0.9"}), 1, "format: expected a text, found nothing");
}

}  // namespace
}  // namespace hmann
