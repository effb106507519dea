// Runbooks: those of files, those that are made, and what they do to a collection.
#include "eval/runbook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"
#include "eval/results.h"

namespace hmann::eval {
namespace {

using testing::HasSubstr;
using Kind = RunbookStep::Kind;

/// As big-ann-benchmarks writes them.
constexpr const char* kBook = R"(sample-10K:
  max_pts: 10000
  1:
    operation: "insert"
    start: 0
    end: 3000
  2:
    operation: search   # a comment
  3:
    operation: "delete"
    start: 0
    end: 1000
  4:
    operation: "replace"
    tags_start: 1000
    tags_end: 2000
    ids_start: 5000
    ids_end: 6000
  5:
    operation: "search"
other-1M:
  1:
    operation: "insert"
)";

TEST(Runbook, OfAFile) {
  const TempFolder folder;
  const auto book = ReadRunbook(folder.Write("small.yaml", kBook), 10'000);
  ASSERT_TRUE(book.ok()) << book.status();
  EXPECT_EQ(book->name, "small");
  ASSERT_EQ(book->steps.size(), 5u);
  EXPECT_EQ(book->steps[0].kind, Kind::kInsert);
  EXPECT_EQ(book->steps[1].kind, Kind::kSearch);
  EXPECT_EQ(book->steps[3].kind, Kind::kReplace);
  EXPECT_EQ(book->steps[3].begin, 1000u);
  EXPECT_EQ(book->steps[3].from, 5000u);
}

TEST(Runbook, WhatIsWrongInAFileIsNamed) {
  const TempFolder folder;
  const auto fails = [&](const std::string& steps, const std::string& words) {
    const auto book = ReadRunbook(folder.Write("bad.yaml", "x:\n" + steps), 100);
    EXPECT_THAT(std::string(book.status().message()), HasSubstr(words)) << steps;
  };
  fails("", "expected steps, found none");
  fails("  1:\n    operation: insert\n    start: 0\n", "step 1: expected a range within the 100");
  fails("  7:\n    operation: delete\n    start: 9\n    end: 8\n", "step 7: expected a range");
  fails("  1:\n    operation: insert\n    start: 0\n    end: 101\n", "expected a range");
  fails("  1:\n    operation: explode\n", "found 'explode'");
  fails("  1:\n    operation: insert\n    start: many\n", "bad.yaml:4: expected a step");
  fails(
      "  1:\n    operation: replace\n    tags_start: 0\n    tags_end: 9\n    ids_start: 0\n"
      "    ids_end: 8\n",
      "as many ids as tags");
}

TEST(Runbook, MadeOnesUseEachVectorOnce) {
  const auto base = VectorFile::Open("datasets/sample/base.u8bin");
  for (const std::string name : {"simple", "delete", "replace", "window"}) {
    const auto book = MakeRunbook(name, *base);
    ASSERT_TRUE(book.ok()) << book.status();
    std::uint64_t inserted = 0, searches = 0;
    for (const RunbookStep& step : book->steps) {
      inserted += step.kind == Kind::kInsert ? step.end - step.begin : 0;
      searches += step.kind == Kind::kSearch ? 1 : 0;
      EXPECT_LE(step.from + step.end - step.begin, base->n());
    }
    EXPECT_GE(searches, 8u) << name;
    EXPECT_EQ(inserted == base->n(), name != "replace") << name;
    std::vector<std::uint32_t> sorted = book->order;
    std::sort(sorted.begin(), sorted.end());
    for (std::uint32_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], i);
  }
  EXPECT_THAT(std::string(MakeRunbook("sample", *base).status().message()),
              HasSubstr("expected simple, delete, replace, window or a file"));
}

TEST(Runbook, IsRunAndItsRecallIsToldOfEachSearch) {
  const TempFolder folder;
  Benchmark benchmark;
  benchmark.job.base = "datasets/sample/base.u8bin";
  benchmark.job.queries = "datasets/sample/query.u8bin";
  benchmark.job.folder = folder / "out";
  benchmark.targets = {0.9, 0.99};
  RunbookOptions options;
  options.runbooks = {folder.Write("small.yaml", kBook), "delete"};
  std::vector<std::string> said;
  const auto lines =
      RunRunbooks(options, benchmark, [&](const std::string& line) { said.push_back(line); });
  ASSERT_TRUE(lines.ok()) << lines.status();
  const auto read = ReadResults(folder / "out/results.jsonl");
  ASSERT_TRUE(read.ok()) << read.status();
  const Json figures = FiguresOf(*read);
  ASSERT_EQ(figures["steps"].size(), (2 + 8) * 2u);
  ASSERT_EQ(figures["runbooks"].size(), 4u);
  EXPECT_EQ(figures["steps"][0]["vectors"], 3000);
  EXPECT_EQ(figures["steps"][2]["vectors"], 2000);
  EXPECT_EQ(figures["steps"][2]["step"], 5);
  for (const Json& book : figures["runbooks"]) {
    EXPECT_GE(book["recall"].get<double>(), book["target"].get<double>());
    EXPECT_LE(book["recall"].get<double>(), 1.0);
    EXPECT_GE(book["recall"], book["least_recall"]);
  }
  EXPECT_EQ(said.size(), 10u);
  EXPECT_FALSE(std::filesystem::exists(folder / "out/collection"));
}

}  // namespace
}  // namespace hmann::eval
