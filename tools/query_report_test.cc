#include "tools/query_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "datasets/ground_truth.h"

namespace hmann::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string TestPath(const char* name) {
  return absl::StrCat(::testing::TempDir(), "/hmann_report_", ::getpid(), "_", name);
}

/// 100 queries; query i has the answer {i, i + 1} and takes 1000 (i + 1) ns.
QueryRun HundredQueries() {
  QueryRun run;
  run.params.k = 2;
  run.params.ef_l1 = 16;
  run.params.ef_l0 = 8;
  run.params.mode = SearchMode::kGraph;
  run.simd = "scalar";
  run.seconds = 0.5;
  for (std::uint64_t i = 0; i < 100; ++i) {
    run.answers.push_back({{i, 1.0f}, {i + 1, 2.0f}});
    run.latency_ns.push_back(1000 * (100 - i));
  }
  return run;
}

TEST(Summarize, NamesAndOrderAreTheSurface) {
  QueryRun run = HundredQueries();
  run.counters = Counters{.distances_fast = 50, .expanded_l0 = 700};
  const auto figures = Summarize(run, "");
  ASSERT_TRUE(figures.ok()) << figures.status();
  std::vector<std::string> names;
  for (const auto& [name, value] : figures->items()) names.push_back(name);
  EXPECT_THAT(
      names,
      ElementsAre("queries", "k", "qps", "mean_us", "p50_us", "p95_us", "p99_us", "threads", "mode",
                  "ef_l1", "ef_l0", "beam_width", "prefetch", "simd", "distances_fast",
                  "distances_slow", "estimates", "node_reads", "node_accesses", "node_bytes",
                  "hops", "fetched_ahead", "fetched_ahead_used", "fetched_ahead_late", "io_reads",
                  "io_bytes", "cache_hits", "expanded_l1", "expanded_l0"));
  EXPECT_EQ((*figures)["queries"], 100);
  EXPECT_EQ((*figures)["qps"], 200.0);
  EXPECT_EQ((*figures)["mean_us"], 50.5);
  EXPECT_EQ((*figures)["p50_us"], 50.0);
  EXPECT_EQ((*figures)["p95_us"], 95.0);
  EXPECT_EQ((*figures)["p99_us"], 99.0);
  EXPECT_EQ((*figures)["mode"], "graph");
  EXPECT_EQ((*figures)["distances_fast"], 0.5);
  EXPECT_EQ((*figures)["expanded_l0"], 7.0);
}

TEST(Summarize, RecallIsAgainstTheFirstKOfTheTruth) {
  const std::string path = TestPath("truth.gt");
  GroundTruth truth;
  truth.n = 100;
  truth.k = 3;
  for (std::uint64_t i = 0; i < 100; ++i) {
    // Ten queries find one of two neighbors, the others both; the third column must not
    // count.
    truth.ids.insert(truth.ids.end(), {i, i < 10 ? i + 2000 : i + 1, i + 1000});
    truth.distances.insert(truth.distances.end(), {1.0f, i < 10 ? 1.5f : 2.0f, 3.0f});
  }
  ASSERT_TRUE(WriteGroundTruth(path, truth).ok());
  const QueryRun run = HundredQueries();
  const auto figures = Summarize(run, path);
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_DOUBLE_EQ((*figures)["recall"], 0.95);
  EXPECT_DOUBLE_EQ((*figures)["recall_p05"], 0.5);

  QueryRun longer = run;
  longer.params.k = 4;
  const auto refused = Summarize(longer, path);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(path));
  std::filesystem::remove(path);
}

TEST(RunQueries, EachQueryOnceOnAWorkerOfItsOwn) {
  QueryRun run;
  run.threads = 3;
  std::vector<std::atomic<int>> requested(1000);
  std::atomic<int> busy[3] = {};
  const auto status = RunQueries(
      1000,
      [&](int thread, std::uint64_t i, std::vector<Neighbor>* answer) {
        EXPECT_EQ(busy[thread].fetch_add(1), 0) << "two queries at once on worker " << thread;
        ++requested[i];
        answer->assign(1, {i, 0.0f});
        busy[thread].fetch_sub(1);
        return absl::OkStatus();
      },
      &run);
  ASSERT_TRUE(status.ok()) << status;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(requested[i], 1);
    ASSERT_EQ(run.answers[i].size(), 1u);
    EXPECT_EQ(run.answers[i][0].label, i);
  }
  EXPECT_GT(run.seconds, 0);
}

TEST(RunQueries, TheFirstErrorStopsAllAndNamesItsQuery) {
  QueryRun run;
  run.threads = 2;
  std::atomic<int> requested{0};
  const auto status = RunQueries(
      1'000'000,
      [&](int, std::uint64_t i, std::vector<Neighbor>*) {
        ++requested;
        return i == 17 ? absl::InvalidArgumentError("component 3 is NaN") : absl::OkStatus();
      },
      &run);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "query 17: component 3 is NaN");
  EXPECT_LT(requested, 1'000'000);
}

TEST(RunQueries, OfTwoBadQueriesTheFirstIsNamed) {
  QueryRun run;
  run.threads = 2;
  std::atomic<bool> second{false};
  const auto status = RunQueries(
      100,
      [&](int, std::uint64_t i, std::vector<Neighbor>*) {
        if (i == 18) second = true;
        if (i != 17 && i != 18) return absl::OkStatus();
        while (!second) std::this_thread::yield();
        if (i == 17) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return absl::InvalidArgumentError("is bad");
      },
      &run);
  EXPECT_EQ(std::string(status.message()), "query 17: is bad");
}

TEST(PrintFigures, HasALineAFigure) {
  std::ostringstream out;
  QueryRun run = HundredQueries();
  run.params.epsilon = 0.04835433f;
  PrintFigures(*Summarize(run, ""), out);
  EXPECT_THAT(out.str(), HasSubstr("  qps                  200.0\n"));
  EXPECT_THAT(out.str(), HasSubstr("  mode                 graph\n"));
  EXPECT_THAT(out.str(), HasSubstr("  epsilon              0.04835433\n")) << "to be pasted";
}

}  // namespace
}  // namespace hmann::tools
