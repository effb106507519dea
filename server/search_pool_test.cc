#include "server/search_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "server/testing/fixture.h"

namespace hmann {
namespace {

using namespace std::chrono_literals;
using Clock = SearchJob::Clock;

/// A job that notes what was asked of it, and whose first query can be held until the
/// test says so.
class NotedJob : public SearchJob {
 public:
  NotedJob(ServedIndex* index, std::size_t queries,
           Clock::time_point deadline = Clock::time_point::max(), std::uint64_t bytes = 1)
      : SearchJob(index, queries, bytes, deadline), answered(queries) {}

  std::future<absl::Status> done() { return done_.get_future(); }
  std::future<void> begun() { return begun_.get_future(); }
  void HoldFirst() { held_ = true; }
  void Go() { go_.set_value(); }

  std::vector<std::atomic<int>> answered;  ///< times that each query was
  int fails_at = -1;
  std::vector<NotedJob*>* order = nullptr;  ///< appended to at each query; for pools of one thread

 protected:
  absl::Status Answer(std::size_t i, Searcher&, const SearchLimits&) override {
    ++answered[i];
    if (order != nullptr) order->push_back(this);
    if (i == 0 && held_) {
      begun_.set_value();
      go_.get_future().wait();
    }
    return static_cast<int>(i) == fails_at ? absl::InvalidArgumentError("this one")
                                           : absl::OkStatus();
  }
  void Complete(const absl::Status& status) override { done_.set_value(status); }

 private:
  bool held_ = false;
  std::promise<void> begun_, go_;
  std::promise<absl::Status> done_;
};

class SearchPoolTest : public testing::Test {
 protected:
  SearchPoolTest() : index_({"sift", SampleIndex()}) { EXPECT_TRUE(index_.Load({}).ok()); }
  ServedIndex index_;
};

TEST_F(SearchPoolTest, EveryQueryIsAnsweredOnce) {
  SearchPool pool(3, 10, 1000);
  NotedJob job(&index_, 1000);
  ASSERT_TRUE(pool.Submit(&job).ok());
  EXPECT_TRUE(job.done().get().ok());
  for (const auto& times : job.answered) EXPECT_EQ(times, 1);
}

TEST_F(SearchPoolTest, JobsTakeTurns) {
  SearchPool pool(1, 10, 1000);
  NotedJob batch(&index_, 5), single(&index_, 1);
  std::vector<NotedJob*> order;
  batch.order = single.order = &order;
  batch.HoldFirst();
  auto begun = batch.begun();
  ASSERT_TRUE(pool.Submit(&batch).ok());
  begun.wait();
  ASSERT_TRUE(pool.Submit(&single).ok());
  batch.Go();
  EXPECT_TRUE(batch.done().get().ok());
  EXPECT_TRUE(single.done().get().ok());
  // The batch's second query was in the queue before the single one came; its third comes
  // after it.
  EXPECT_THAT(order, testing::ElementsAre(&batch, &batch, &single, &batch, &batch, &batch));
}

TEST_F(SearchPoolTest, RefusesBeyondTheQueueAndBeyondTheMemory) {
  SearchPool pool(1, 2, 10);
  NotedJob first(&index_, 1, Clock::time_point::max(), 4),
      second(&index_, 1, Clock::time_point::max(), 4),
      large(&index_, 1, Clock::time_point::max(), 4), third(&index_, 1), fourth(&index_, 1);
  first.HoldFirst();
  auto begun = first.begun();
  ASSERT_TRUE(pool.Submit(&first).ok());
  begun.wait();  // it runs, and waits no longer
  ASSERT_TRUE(pool.Submit(&second).ok());
  EXPECT_EQ(Reason(pool.Submit(&large)), "MEMORY_FULL");
  ASSERT_TRUE(pool.Submit(&third).ok());
  const absl::Status full = pool.Submit(&fourth);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(full), "QUEUE_FULL");
  EXPECT_TRUE(HasDetail(full, "google.rpc.RetryInfo"));
  EXPECT_FALSE(pool.TryRunHere(&fourth));  // the thread is busy
  first.Go();
  for (NotedJob* job : {&first, &second, &third}) EXPECT_TRUE(job->done().get().ok());
  EXPECT_EQ(fourth.answered[0], 0);
}

TEST_F(SearchPoolTest, RunsHereOnlyWhenIdle) {
  SearchPool pool(1, 10, 1000);
  NotedJob here(&index_, 1);
  ASSERT_TRUE(pool.TryRunHere(&here));
  EXPECT_TRUE(here.done().get().ok());
  EXPECT_EQ(here.answered[0], 1);

  // While one runs here, the pool's one thread keeps to the bound and a second is not run
  // here.
  NotedJob held(&index_, 1), other(&index_, 1), queued(&index_, 1);
  held.HoldFirst();
  auto begun = held.begun();
  std::future<bool> ran = std::async(std::launch::async, [&] { return pool.TryRunHere(&held); });
  begun.wait();
  EXPECT_FALSE(pool.TryRunHere(&other));
  ASSERT_TRUE(pool.Submit(&queued).ok());
  EXPECT_EQ(queued.answered[0], 0);
  held.Go();
  EXPECT_TRUE(ran.get());
  EXPECT_TRUE(queued.done().get().ok());
}

TEST_F(SearchPoolTest, DropsWhatIsLateOrCancelled) {
  SearchPool pool(1, 10, 1000);
  NotedJob late(&index_, 3, Clock::now() - 1s), cancelled(&index_, 3);
  cancelled.Cancel();
  ASSERT_TRUE(pool.Submit(&late).ok());
  ASSERT_TRUE(pool.Submit(&cancelled).ok());
  EXPECT_EQ(late.done().get().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cancelled.done().get().code(), absl::StatusCode::kCancelled);
  for (NotedJob* job : {&late, &cancelled}) {
    for (const auto& times : job->answered) EXPECT_EQ(times, 0);
  }
}

TEST_F(SearchPoolTest, OneBadQueryFailsItsJobAlone) {
  SearchPool pool(1, 10, 1000);
  NotedJob bad(&index_, 100), good(&index_, 100);
  bad.fails_at = 7;
  ASSERT_TRUE(pool.Submit(&bad).ok());
  ASSERT_TRUE(pool.Submit(&good).ok());
  EXPECT_EQ(bad.done().get(), absl::InvalidArgumentError("this one"));
  EXPECT_EQ(bad.answered[8], 0);
  EXPECT_TRUE(good.done().get().ok());
}

}  // namespace
}  // namespace hmann
