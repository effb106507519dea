#include "eval/adapters/shares.h"

#include <gtest/gtest.h>

#include <atomic>
#include <span>

#include "eval/adapters/latency.h"

namespace hmann::eval {
namespace {

TEST(Latency, NearestRanks) {
  std::vector<float> seconds;
  for (int i = 200; i >= 1; --i) seconds.push_back(1e-6f * static_cast<float>(i));
  const LatencyUs latency = SummarizeLatency(seconds);
  EXPECT_NEAR(latency.mean, 100.5, 1e-3);
  EXPECT_NEAR(latency.p50, 100, 1e-3);
  EXPECT_NEAR(latency.p99, 198, 1e-3);
  EXPECT_NEAR(SummarizeLatency({3e-6f}).p50, 3, 1e-5);
  EXPECT_NEAR(SummarizeLatency({3e-6f}).p99, 3, 1e-5);
}

TEST(Shares, EveryQueryOnceWhateverTheThreads) {
  const std::vector<int> cpus = *AllowedCpus();
  for (const int threads : {1, 2, 3, 7, 64}) {
    std::vector<std::atomic<int>> answered(50);
    std::atomic<int> calls{0};
    RunShare whole;
    whole.begin = 10;
    whole.end = 50;
    const absl::StatusOr<RunTimes> times =
        RunShares({threads, 1}, whole, cpus, [&](const RunShare& share) {
          ++calls;
          EXPECT_LT(share.thread, threads);
          for (std::uint64_t q = share.begin; q < share.end; ++q) ++answered[q];
          return absl::OkStatus();
        });
    ASSERT_TRUE(times.ok()) << times.status();
    EXPECT_EQ(calls, threads);
    for (std::size_t q = 0; q < 50; ++q) EXPECT_EQ(answered[q], q < 10 ? 0 : 1) << q;
    EXPECT_GT(times->cpu_seconds, 0) << "of threads that did something";
  }
}

TEST(Shares, AThreadIsWhereItIsPinned) {
  const std::vector<int> cpus = *AllowedCpus();
  ASSERT_TRUE(PinThisThread(std::span(cpus).first(1)).ok());
  EXPECT_EQ(AllowedCpus()->size(), 1u);
  ASSERT_TRUE(PinThisThread(cpus).ok());
  EXPECT_EQ(*AllowedCpus(), cpus);
}

TEST(Shares, OneThreadsErrorIsTheRuns) {
  RunShare whole;
  whole.end = 10;
  const absl::StatusOr<RunTimes> times =
      RunShares({3, 1}, whole, *AllowedCpus(), [&](const RunShare& share) {
        return share.thread == 1 ? absl::InternalError("broken") : absl::OkStatus();
      });
  EXPECT_EQ(times.status().message(), "broken");
}

TEST(Shares, ATimerSpeaksOnlyWhenAsked) {
  float seconds[2] = {-1, -1};
  RunShare share;
  { const QueryTimer timer(share, 1); }
  EXPECT_EQ(seconds[1], -1);
  share.seconds = seconds;
  { const QueryTimer timer(share, 1); }
  EXPECT_EQ(seconds[0], -1);
  EXPECT_GE(seconds[1], 0);
}

}  // namespace
}  // namespace hmann::eval
