// Load on a real server, offered at random times.
#include "eval/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "eval/results.h"
#include "server/testing/fixture.h"

namespace hmann {
namespace {

using namespace std::chrono_literals;

VectorFile Queries() { return *VectorFile::Open("datasets/sample/query.u8bin"); }

LoadOptions To(const Served& served) {
  LoadOptions options;
  options.server = served.server->address();
  options.index = "sift";
  options.rate = 300;
  options.time = 1s;
  options.deadline = 30s;
  options.connections = 2;
  return options;
}

std::uint64_t Sum(const LoadReport& report) {
  return std::accumulate(report.ended.begin(), report.ended.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& one) { return sum + one.second; });
}

TEST(LoadTest, EveryRequestEndsAndIsTimed) {
  const Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  for (const auto& [batch, stream] : {std::pair(1u, false), {7u, false}, {1u, true}}) {
    LoadOptions options = To(served);
    options.batch = batch;
    options.stream = stream;
    options.server_pid = ::getpid();
    const auto report = OfferLoad(Queries(), options);
    ASSERT_TRUE(report.ok()) << report.status();
    // A Poisson process of mean 300: six standard deviations.
    EXPECT_NEAR(static_cast<double>(report->offered), 300, 104);
    EXPECT_EQ(report->ended.at(absl::StatusCode::kOk), report->offered);
    EXPECT_EQ(report->latency_us.size(), report->offered);
    EXPECT_TRUE(std::is_sorted(report->latency_us.begin(), report->latency_us.end()));
    EXPECT_GT(report->latency_us.front(), 0);
    EXPECT_GT(report->client_cpu_seconds, 0);
    EXPECT_GT(report->server_cpu_seconds, 0);
    EXPECT_EQ(OfferLoad(Queries(), options)->offered, report->offered) << "the same seed";
  }
}

TEST(LoadTest, CallsThatSearchNothing) {
  const Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  LoadOptions options = To(served);
  options.empty = true;
  options.search.k = 1u << 30;  // which no search may ask for
  const auto report = OfferLoad(Queries(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->latency_us.size(), report->offered);
}

/// Searches that take one thread long: some end late, and all are counted.
void ExpectSomeLate(bool stream, std::uint32_t batch, double rate) {
  ServerOptions slow = LoopbackOptions({{"sift", SampleIndex()}});
  slow.threads = 1;
  const Served served(slow);
  LoadOptions options = To(served);
  options.search = SlowDials();
  options.stream = stream;
  options.batch = batch;
  options.rate = rate;
  options.deadline = 50ms;
  const auto report = OfferLoad(Queries(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Sum(*report), report->offered);
  EXPECT_LT(report->latency_us.size(), report->offered);
}

TEST(LoadTest, WhatIsNotAnsweredIsCountedByCode) { ExpectSomeLate(false, 64, 100); }

TEST(LoadTest, LateAnswersOfAStreamAreLate) { ExpectSomeLate(true, 1, 1000); }

TEST(LoadTest, EverySettingRateAndRoundIsALine) {
  const Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  LoadBenchmark benchmark;
  benchmark.load = To(served);
  benchmark.load.time = 300ms;
  benchmark.queries = "datasets/sample/query.u8bin";
  benchmark.rates = {100, 200};
  benchmark.settings = {{{"walk", "best-first"}, {"ef_l0", 10}}, Json::object()};
  benchmark.rounds = 2;
  benchmark.folder = absl::StrCat(testing::TempDir(), "load_test.", ::getpid());
  const auto lines = RunLoad(benchmark, [](const std::string&) {});
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 1u + 2 * 2 * 2);
  const auto read = ReadResults(benchmark.folder + "/results.jsonl");
  std::filesystem::remove_all(benchmark.folder);
  ASSERT_TRUE(read.ok()) << read.status();
  const Json figures = FiguresOf(*read);
  ASSERT_EQ(figures["load"].size(), 8u);
  for (const Json& row : figures["load"]) {
    EXPECT_EQ(row["answered"], row["offered"]) << row;
    EXPECT_GE(row["p99_us"], row["p50_us"]) << row;
    EXPECT_TRUE(row["failed"].empty()) << row;
  }
  EXPECT_EQ(figures["load"][1]["rate"], 200);
  std::ostringstream table;
  PrintTables(figures, table);
  EXPECT_THAT(table.str(), testing::HasSubstr("queries/s"));
  benchmark.settings = {{{"colour", 1}}};
  EXPECT_THAT(std::string(RunLoad(benchmark, [](const std::string&) {}).status().message()),
              testing::HasSubstr("colour"));
}

TEST(LoadTest, WhatCannotBeIsNamed) {
  const Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  const auto code = [&](auto change) {
    LoadOptions options = To(served);
    change(options);
    return OfferLoad(Queries(), options).status().code();
  };
  using Code = absl::StatusCode;
  EXPECT_EQ(code([](LoadOptions& o) { o.rate = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.stream = o.empty = true; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.rate = 1e12; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.batch = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.deadline = 0s; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.server = "nonsense"; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.index = "nothing"; }), Code::kNotFound);
  EXPECT_EQ(code([](LoadOptions& o) { o.search.ef_l0 = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.server_pid = 1 << 30; }), Code::kNotFound);
}

}  // namespace
}  // namespace hmann
