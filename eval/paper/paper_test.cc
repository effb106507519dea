// The paper's claims on the first 2,000 vectors of the shipped sample, through the real
// programs.
#include "eval/paper/paper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "eval/results.h"
#include "index/base/file.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Paper : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "paper_test.", ::getpid());
    fs::create_directories(folder_);
    BenchmarkData& job = each_.job;
    job.base = "datasets/sample/base.u8bin";
    job.queries = "datasets/sample/query.u8bin";
    job.folder = folder_ + "/out";
    job.threads = 2;
    job.cancelled = &cancelled_;
    each_.rounds = 1;
    each_.clock = RunClock::kCpu;
  }
  void TearDown() override { fs::remove_all(folder_); }

  absl::StatusOr<std::vector<Json>> Run() {
    said_.clear();
    Progress progress(Progress::Show::kNever);
    return RunPaper(scale_, each_, progress, [this](const std::string& line) {
      said_ += line + "\n";
      if (!stop_at_.empty() && line == stop_at_) cancelled_ = true;
    });
  }
  std::string Fails() { return std::string(Run().status().message()); }

  Benchmark each_;
  PaperScale scale_{"small", 2000, 40, 20, 24};
  std::string folder_, said_, stop_at_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(Paper, VerdictsResumedWhereItStopped) {
  for (const char* part : {"promotion-k1-2000", "told"}) {
    stop_at_ = part;
    cancelled_ = false;
    EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled) << part;
    EXPECT_THAT(said_, Not(HasSubstr(absl::StrCat(part, ": done before"))));
  }
  stop_at_.clear();
  cancelled_ = false;
  const absl::StatusOr<std::vector<Json>> lines = Run();
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_THAT(said_, HasSubstr("tiers: done before\ngrid: done before\ntold\n"));
  const Json figures = FiguresOf(*lines);
  ASSERT_EQ(figures["claims"].size(), 13u);
  std::set<std::string> names, verdicts;
  for (const Json& claim : figures["claims"]) {
    SCOPED_TRACE(claim.dump());
    EXPECT_TRUE(names.insert(claim["claim"]).second);
    verdicts.insert(claim["verdict"]);
    for (const char* text : {"paper", "ran", "figure", "varied"})
      EXPECT_FALSE(claim[text].get<std::string>().empty()) << text;
    EXPECT_THAT(claim["figure"].get<std::string>(), Not(HasSubstr("nan")));
    EXPECT_EQ(claim["tables"].empty(), claim["claim"] == "DiskANN");
    for (const Json& table : claim["tables"])
      for (const Json& row : table["rows"]) EXPECT_EQ(row.size(), table["head"].size());
  }
  const std::set<std::string> known = {"held", "partly", "not held", "needs 10^9"};
  EXPECT_TRUE(std::includes(known.begin(), known.end(), verdicts.begin(), verdicts.end()));
  std::stringstream printed;
  PrintTables(figures, printed);
  EXPECT_THAT(printed.str(), HasSubstr("needs 10^9   3.1 a, b: 10^9, recall@1 0.95"));
  EXPECT_EQ(FiguresOf(*ReadResults(folder_ + "/out/results.jsonl"))["claims"], figures["claims"]);

  // What another machine has measured is neither mixed in nor replaced.
  const std::string part = folder_ + "/out/grid/results.jsonl";
  const std::string text = *ReadTextFile(part, 1_GiB);
  ASSERT_TRUE(WriteTextFile(part, absl::StrReplaceAll(text, {{"\"cores\":", "\"cores\":9"}})).ok());
  EXPECT_THAT(Fails(), HasSubstr("grid/results.jsonl: results of another machine (cores 9"));
  // Of another version: run again.
  ASSERT_TRUE(
      WriteTextFile(part, absl::StrReplaceAll(text, {{"\"version\":2", "\"version\":1"}})).ok());
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(said_, HasSubstr("tiers: done before\ngrid\n"));
}

TEST_F(Paper, WhatCannotBeIsRefusedBeforeTheWork) {
  each_.job.metric = Metric::kCosine;
  EXPECT_THAT(Fails(), HasSubstr("expected l2, as in the paper, found cosine"));
  each_.job.metric = Metric::kL2;
  scale_.rows = 100;
  EXPECT_THAT(Fails(), HasSubstr("vectors and 40 queries, found 100 and"));
  scale_.learning_queries = 100'000;
  EXPECT_THAT(Fails(), HasSubstr("200000 queries, found"));
  scale_ = {"1B", 0, 40, 20, 24};
  each_.job.base = folder_ + "/large.u8bin";
  const std::uint32_t head[2] = {1'000'000'000, 128};
  std::ofstream(each_.job.base).write(reinterpret_cast<const char*>(head), sizeof head);
  fs::resize_file(each_.job.base, sizeof head + 128'000'000'000);
  EXPECT_THAT(Fails(), HasSubstr("--scale 1B: needs about"));
  EXPECT_THAT(Fails(), HasSubstr("of memory, there are"));
  EXPECT_FALSE(fs::exists(each_.job.folder));
}

}  // namespace
}  // namespace hmann::eval
