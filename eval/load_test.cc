// Offers load to a real server at random times.
#include "eval/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "eval/results.h"
#include "server/testing/fixture.h"

namespace hmann::eval {
namespace {

using server::LoopbackOptions;
using server::SampleIndex;
using server::Served;
using server::SlowParams;

using namespace std::chrono_literals;

VectorFile Queries() { return *VectorFile::Open("datasets/sample/query.u8bin"); }

constexpr double kRate = 300;

LoadOptions To(const Served& served) {
  LoadOptions options;
  options.server = served.server->address();
  options.index = "sift";
  options.time = 1s;
  options.deadline = 30s;
  options.connections = 2;
  return options;
}

TEST(LoadTest, EveryRequestEndsAndIsTimed) {
  const Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  for (const auto& [batch, stream] : {std::pair(1u, false), {7u, false}, {1u, true}}) {
    LoadOptions options = To(served);
    options.batch = batch;
    options.stream = stream;
    options.server_pid = ::getpid();
    const auto figures = OfferLoad(Queries(), options, {}, kRate);
    ASSERT_TRUE(figures.ok()) << figures.status();
    // A Poisson process of mean 300: six standard deviations.
    EXPECT_NEAR((*figures)["offered"].get<double>(), kRate, 104);
    EXPECT_EQ((*figures)["answered"], (*figures)["offered"]);
    EXPECT_TRUE((*figures)["failed"].empty());
    double before = 0;
    for (const char* share : {"p50_us", "p90_us", "p99_us", "p999_us", "max_us"}) {
      EXPECT_GE((*figures)[share].get<double>(), before) << share;
      before = (*figures)[share].get<double>();
    }
    EXPECT_GT((*figures)["p50_us"].get<double>(), 0);
    EXPECT_GT((*figures)["client_cpu_us"].get<double>(), 0);
    EXPECT_GT((*figures)["server_cpu_us"].get<double>(), 0);
    EXPECT_EQ((*OfferLoad(Queries(), options, {}, kRate))["offered"], (*figures)["offered"])
        << "the same arrivals";
  }
}

/// Searches that take one thread long: some end late, and all are counted.
void ExpectSomeLate(bool stream, std::uint32_t batch, double rate) {
  server::ServerOptions slow = LoopbackOptions({{"sift", SampleIndex()}});
  slow.threads = 1;
  const Served served(slow);
  LoadOptions options = To(served);
  options.stream = stream;
  options.batch = batch;
  options.deadline = 50ms;
  const auto figures = OfferLoad(Queries(), options, SlowParams(), rate);
  ASSERT_TRUE(figures.ok()) << figures.status();
  std::uint64_t ended = (*figures)["answered"].get<std::uint64_t>();
  EXPECT_LT(ended, (*figures)["offered"].get<std::uint64_t>());
  for (const auto& [code, count] : (*figures)["failed"].items())
    ended += count.get<std::uint64_t>();
  EXPECT_EQ(ended, (*figures)["offered"].get<std::uint64_t>());
}

TEST(LoadTest, WhatIsNotAnsweredIsCountedByCode) { ExpectSomeLate(false, 64, 100); }

TEST(LoadTest, LateAnswersOfAStreamAreLate) { ExpectSomeLate(true, 1, 1000); }

TEST(LoadTest, EverySettingRateAndRoundIsALine) {
  const Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  LoadOptions options = To(served);
  options.time = 300ms;
  options.rates = {100, 200};
  options.settings = {{{"mode", "graph"}, {"ef_l0", 10}}, Json::object()};
  Benchmark benchmark;
  benchmark.job.queries = "datasets/sample/query.u8bin";
  benchmark.rounds = 2;
  benchmark.job.folder = absl::StrCat(testing::TempDir(), "load_test.", ::getpid());
  const auto run = [&] { return RunLoad(options, benchmark, [](const std::string&) {}); };
  const auto lines = run();
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 1u + 2 * 2 * 2);
  const auto read = ReadResults(benchmark.job.folder + "/results.jsonl");
  std::filesystem::remove_all(benchmark.job.folder);
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
  EXPECT_THAT(table.str(), testing::HasSubstr("queries per second"));
  options.settings = {{{"color", 1}}};
  EXPECT_THAT(std::string(run().status().message()), testing::HasSubstr("color"));
}

TEST(LoadTest, WhatCannotBeIsNamed) {
  const Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  const auto code = [&](auto change, const SearchParams& search = {}, double rate = kRate) {
    LoadOptions options = To(served);
    change(options);
    return OfferLoad(Queries(), options, search, rate).status().code();
  };
  const auto same = [](LoadOptions&) {};
  using Code = absl::StatusCode;
  EXPECT_EQ(code(same, {}, 0), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.stream = true, o.batch = 2; }), Code::kInvalidArgument);
  EXPECT_EQ(code(same, {}, 1e12), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.batch = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.deadline = 0s; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.server = "nonsense"; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.index = "nothing"; }), Code::kNotFound);
  EXPECT_EQ(code(same, {.ef_l0 = 0}), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoadOptions& o) { o.server_pid = 1 << 30; }), Code::kNotFound);
}

}  // namespace
}  // namespace hmann::eval
