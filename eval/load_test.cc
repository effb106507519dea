// Load on a real server, offered at random times.
#include "eval/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

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
