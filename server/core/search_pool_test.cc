#include "server/core/search_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using namespace std::chrono_literals;
using Clock = QueuedRequest::Clock;

/// A job that records what the pool asks of it. Its first query can be held until the
/// test releases it.
class NotedRequest : public QueuedRequest {
 public:
  NotedRequest(ServedIndex* index, std::size_t queries,
               Clock::time_point deadline = Clock::time_point::max(), std::uint64_t bytes = 1,
               const Effort& effort = {})
      : QueuedRequest(index, queries, effort, bytes, deadline), answered(queries) {}

  std::future<absl::Status> done() { return done_.get_future(); }
  std::future<void> begun() { return begun_.get_future(); }
  void HoldFirst() { held_ = true; }
  void Go() { go_.set_value(); }

  std::vector<std::atomic<int>> answered;  ///< answer count per query
  int fails_at = -1;
  bool first_fails = false;
  std::vector<NotedRequest*>* order = nullptr;  ///< log of queries; one-thread pools

 protected:
  /// The pool passes one query at a time.
  absl::Status Answer(std::size_t i, std::size_t end, AnySearcher&, const SearchLimits&) override {
    EXPECT_EQ(end, i + 1);
    ++answered[i];
    if (order != nullptr) order->push_back(this);
    if (i == 0 && held_) {
      begun_.set_value();
      go_.get_future().wait();
    }
    if (i == 0 && first_fails) return absl::InvalidArgumentError("the first");
    return static_cast<int>(i) == fails_at ? absl::InvalidArgumentError("this one")
                                           : absl::OkStatus();
  }
  void Complete(const absl::Status& status) override { done_.set_value(status); }

 private:
  bool held_ = false;
  std::promise<void> begun_, go_;
  std::promise<absl::Status> done_;
};

/// An effort of that many microseconds, by the guess used before any measurement.
Effort Guessed(std::uint64_t microseconds) { return {SearchMode::kGraph, microseconds}; }

constexpr Clock::time_point kNever = Clock::time_point::max();

PoolBounds Bounds(std::size_t queue, std::uint64_t bytes = 1000) {
  return {queue, bytes, std::chrono::hours(100)};
}

class SearchPoolTest : public testing::Test {
 protected:
  SearchPoolTest() { EXPECT_TRUE(index_.Load(SampleIndex(), {}).ok()); }
  const std::shared_ptr<ServedIndex> held_ =
      std::make_shared<ServedIndex>(IndexSpec{"sift", SampleIndex()});
  ServedIndex& index_ = *held_;
};

TEST_F(SearchPoolTest, EveryQueryIsAnsweredOnce) {
  SearchPool pool(3, Bounds(10));
  NotedRequest job(&index_, 1000);
  ASSERT_TRUE(pool.Submit(&job).ok());
  EXPECT_TRUE(job.done().get().ok());
  for (const auto& times : job.answered) EXPECT_EQ(times, 1);
}

TEST_F(SearchPoolTest, OfTwoBadQueriesTheFirstIsNamed) {
  SearchPool pool(2, Bounds(10));
  NotedRequest job(&index_, 2);
  job.first_fails = true;
  job.fails_at = 1;
  job.HoldFirst();
  auto begun = job.begun();
  ASSERT_TRUE(pool.Submit(&job).ok());
  begun.wait();
  while (job.answered[1] == 0) std::this_thread::yield();
  std::this_thread::sleep_for(50ms);  // so that the pool has the error of the second
  job.Go();
  EXPECT_EQ(job.done().get().message(), "the first");
}

TEST_F(SearchPoolTest, TheEarliestDeadlineIsFirst) {
  SearchPool pool(1, Bounds(10));
  NotedRequest held(&index_, 2, Clock::now() + 1h), later(&index_, 2, Clock::now() + 3h),
      sooner(&index_, 2, Clock::now() + 2h);
  std::vector<NotedRequest*> order;
  held.order = later.order = sooner.order = &order;
  held.HoldFirst();
  auto begun = held.begun();
  ASSERT_TRUE(pool.Submit(&held).ok());
  begun.wait();
  ASSERT_TRUE(pool.Submit(&later).ok());
  ASSERT_TRUE(pool.Submit(&sooner).ok());
  held.Go();
  for (NotedRequest* job : {&held, &later, &sooner}) EXPECT_TRUE(job->done().get().ok());
  EXPECT_THAT(order, testing::ElementsAre(&held, &held, &sooner, &sooner, &later, &later));
}

TEST_F(SearchPoolTest, AShortJobDoesNotWaitForALongOne) {
  SearchPool pool(1, Bounds(10));
  NotedRequest batch(&index_, 100, kNever, 1, Guessed(1000)), single(&index_, 1);
  batch.HoldFirst();
  auto begun = batch.begun();
  ASSERT_TRUE(pool.Submit(&batch).ok());
  begun.wait();
  ASSERT_TRUE(pool.Submit(&single).ok());
  EXPECT_TRUE(single.done().get().ok());  // though the batch holds its lane's one thread
  EXPECT_EQ(batch.answered[1], 0);
  batch.Go();
  EXPECT_TRUE(batch.done().get().ok());
}

TEST_F(SearchPoolTest, RefusesWhatCannotBeDoneInTime) {
  SearchPool pool(1, Bounds(10));
  const auto start = Clock::now();
  // An idle lane accepts it, though the guess is two hours.
  NotedRequest running(&index_, 2, start + 1h, 1, Guessed(3'600'000'000)),
      long_one(&index_, 1, start + 30min, 1, Guessed(3'600'000'000)),
      fits(&index_, 1, start + 10h, 1, Guessed(3'600'000'000)),
      pushes(&index_, 15, start + 9h + 30min, 1, Guessed(1'620'000'000));
  running.HoldFirst();
  auto begun = running.begun();
  ASSERT_TRUE(pool.Submit(&running).ok());
  begun.wait();
  const absl::Status refused = pool.Submit(&long_one);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(refused), "NO_TIME");
  EXPECT_TRUE(HasDetail(refused, "google.rpc.RetryInfo"));
  ASSERT_TRUE(pool.Submit(&fits).ok());
  // It would be in time itself, but would make an accepted job late.
  EXPECT_EQ(Reason(pool.Submit(&pushes)), "NO_TIME");
  running.Go();
  for (NotedRequest* job : {&running, &fits}) EXPECT_TRUE(job->done().get().ok());
  for (NotedRequest* job : {&long_one, &pushes}) EXPECT_EQ(job->answered[0], 0);
}

TEST_F(SearchPoolTest, ARefusedCallerMayNotHaveRoomForAsMuch) {
  SearchPool pool(1, Bounds(10));
  const auto in = [](auto time) { return Clock::now() + time; };
  const Caller caller(1, 7), by_another_method(1, 8), other(2, 7);
  NotedRequest running(&index_, 1, in(2h), 1, Guessed(3'600'000'000)),
      long_one(&index_, 1, in(90min), 1, Guessed(3'600'000'000)),
      shorter(&index_, 1, in(90min), 1, Guessed(2'400'000'000)),
      of_the_other(&index_, 1, in(90min), 1, Guessed(3'600'000'000));
  running.HoldFirst();
  auto begun = running.begun();
  ASSERT_TRUE(pool.Submit(&running).ok());
  begun.wait();
  EXPECT_TRUE(pool.MayHaveRoom(caller, in(90min))) << "nothing was refused yet";
  EXPECT_FALSE(pool.RefusesSome());
  EXPECT_EQ(Reason(pool.Submit(&long_one, caller)), "NO_TIME");
  EXPECT_TRUE(pool.RefusesSome());
  EXPECT_FALSE(pool.MayHaveRoom(caller, in(90min)));
  EXPECT_TRUE(pool.MayHaveRoom(by_another_method, in(90min)));
  EXPECT_TRUE(pool.MayHaveRoom(other, in(90min)));
  EXPECT_TRUE(pool.MayHaveRoom(caller, in(3h))) << "there is time for one";
  EXPECT_FALSE(pool.MayHaveRoom(caller, in(3h))) << "it is about to be read";
  EXPECT_TRUE(pool.MayHaveRoom(caller, in(4h)));
  // Now it asks for less.
  EXPECT_EQ(Reason(pool.Submit(&shorter, caller)), "NO_TIME");
  EXPECT_FALSE(pool.MayHaveRoom(caller, in(100min)));
  EXPECT_TRUE(pool.MayHaveRoom(caller, in(160min)));
  running.Go();
  EXPECT_TRUE(running.done().get().ok());
  for (NotedRequest* job : {&long_one, &shorter}) EXPECT_EQ(job->answered[0], 0);
}

TEST_F(SearchPoolTest, DropsWhatWillBeLateWhileOthersWait) {
  SearchPool pool(1, Bounds(10));
  const auto start = Clock::now();
  NotedRequest running(&index_, 1, start + 1h, 1, Guessed(2500)),
      late(&index_, 1, start + 10s, 1, Guessed(9'000'000)),
      last(&index_, 1, start + 12s, 1, Guessed(2500));
  running.HoldFirst();
  auto begun = running.begun();
  ASSERT_TRUE(pool.Submit(&running).ok());
  begun.wait();
  ASSERT_TRUE(pool.Submit(&late).ok());
  ASSERT_TRUE(pool.Submit(&last).ok());
  std::this_thread::sleep_until(start + 2s);
  running.Go();
  EXPECT_TRUE(running.done().get().ok());
  const absl::Status dropped = late.done().get();
  EXPECT_EQ(Reason(dropped), "NO_TIME") << dropped;
  EXPECT_EQ(late.answered[0], 0);
  EXPECT_TRUE(last.done().get().ok());
}

TEST_F(SearchPoolTest, RefusesTooMuchWork) {
  SearchPool pool(1, {10, 1000, 10ms});
  NotedRequest much(&index_, 11, kNever, 1, Guessed(1000)),
      enough(&index_, 10, kNever, 1, Guessed(1000));
  EXPECT_EQ(Reason(pool.Submit(&much)), "WORK_TOO_LARGE");
  ASSERT_TRUE(pool.Submit(&enough).ok());
  EXPECT_TRUE(enough.done().get().ok());
}

TEST_F(SearchPoolTest, RefusesBeyondTheQueueAndBeyondTheMemory) {
  SearchPool pool(1, Bounds(2, 10));
  NotedRequest first(&index_, 1, kNever, 4), second(&index_, 1, kNever, 4),
      large(&index_, 1, kNever, 4), third(&index_, 1), fourth(&index_, 1);
  first.HoldFirst();
  auto begun = first.begun();
  ASSERT_TRUE(pool.Submit(&first).ok());
  begun.wait();  // it runs and no longer waits
  ASSERT_TRUE(pool.Submit(&second).ok());
  EXPECT_EQ(Reason(pool.Submit(&large)), "MEMORY_FULL");
  ASSERT_TRUE(pool.Submit(&third).ok());
  const absl::Status full = pool.Submit(&fourth);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(full), "QUEUE_FULL");
  EXPECT_TRUE(HasDetail(full, "google.rpc.RetryInfo"));
  EXPECT_FALSE(pool.TryRunHere(&fourth));  // the thread is busy
  first.Go();
  for (NotedRequest* job : {&first, &second, &third}) EXPECT_TRUE(job->done().get().ok());
  EXPECT_EQ(fourth.answered[0], 0);
}

TEST_F(SearchPoolTest, WhoHasMostWaitingGivesWayToWhoHasLess) {
  SearchPool pool(1, Bounds(3));
  constexpr std::uint64_t kHeavy = 1, kLight = 2;
  NotedRequest running(&index_, 5), sooner(&index_, 5, Clock::now() + 1h), later(&index_, 5),
      again(&index_, 5), light(&index_, 2), more(&index_, 1), equal(&index_, 4);
  running.HoldFirst();
  auto begun = running.begun();
  ASSERT_TRUE(pool.Submit(&running, kHeavy).ok());
  begun.wait();
  ASSERT_TRUE(pool.Submit(&sooner, kHeavy).ok());
  ASSERT_TRUE(pool.Submit(&later, kHeavy).ok());  // the queue is full
  EXPECT_EQ(Reason(pool.Submit(&again, kHeavy)), "QUEUE_FULL");
  ASSERT_TRUE(pool.Submit(&light, kLight).ok());
  const absl::Status gave_way = later.done().get();
  EXPECT_EQ(gave_way.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(gave_way), "OVER_SHARE");
  EXPECT_TRUE(HasDetail(gave_way, "google.rpc.RetryInfo"));
  EXPECT_EQ(Reason(pool.Submit(&again, kHeavy)), "QUEUE_FULL");  // it has more waiting
  ASSERT_TRUE(pool.Submit(&more, kLight).ok());                  // less, even with it
  EXPECT_EQ(Reason(sooner.done().get()), "OVER_SHARE");
  // The remaining job of heavy has started.
  EXPECT_EQ(Reason(pool.Submit(&equal, kLight)), "QUEUE_FULL");
  running.Go();
  for (NotedRequest* job : {&running, &light, &more}) EXPECT_TRUE(job->done().get().ok());
  for (NotedRequest* job : {&sooner, &later, &again, &equal}) EXPECT_EQ(job->answered[0], 0);
}

TEST_F(SearchPoolTest, NothingGivesWayWhereThatDoesNotHelp) {
  SearchPool pool(1, Bounds(10));
  const auto start = Clock::now();
  const Effort hour = Guessed(3'600'000'000);
  NotedRequest running(&index_, 20, start + 30h, 1, hour),
      waiting(&index_, 5, start + 100h, 1, hour), pushes(&index_, 12, start + 13h, 1, hour);
  running.HoldFirst();
  auto begun = running.begun();
  ASSERT_TRUE(pool.Submit(&running, 1).ok());
  begun.wait();
  ASSERT_TRUE(pool.Submit(&waiting, 1).ok());
  const PoolLoad before = pool.load();
  // It would delay a job that has started and does not give way.
  EXPECT_EQ(Reason(pool.Submit(&pushes, 2)), "NO_TIME");
  EXPECT_EQ(pool.load().bulk.jobs, before.bulk.jobs);
  EXPECT_EQ(pool.load().bytes, before.bytes);
  EXPECT_EQ(pool.load().bulk.work, before.bulk.work);
  running.Go();
  for (NotedRequest* job : {&running, &waiting}) EXPECT_TRUE(job->done().get().ok());
}

TEST_F(SearchPoolTest, RunsHereOnlyWhenIdle) {
  SearchPool pool(1, Bounds(10));
  NotedRequest here(&index_, 1);
  ASSERT_TRUE(pool.TryRunHere(&here));
  EXPECT_TRUE(here.done().get().ok());
  EXPECT_EQ(here.answered[0], 1);

  // While one job runs here, the pool's one thread keeps to the limit, and a second job
  // is not run here.
  NotedRequest held(&index_, 1), other(&index_, 1), queued(&index_, 1);
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
  SearchPool pool(1, Bounds(10));
  NotedRequest late(&index_, 3, Clock::now() - 1s), cancelled(&index_, 3);
  cancelled.Cancel();
  ASSERT_TRUE(pool.Submit(&late).ok());
  ASSERT_TRUE(pool.Submit(&cancelled).ok());
  EXPECT_EQ(late.done().get().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cancelled.done().get().code(), absl::StatusCode::kCancelled);
  for (NotedRequest* job : {&late, &cancelled}) {
    for (const auto& times : job->answered) EXPECT_EQ(times, 0);
  }
}

TEST_F(SearchPoolTest, OneBadQueryFailsItsJobAlone) {
  SearchPool pool(1, Bounds(10));
  NotedRequest bad(&index_, 100), good(&index_, 100);
  bad.fails_at = 7;
  ASSERT_TRUE(pool.Submit(&bad).ok());
  ASSERT_TRUE(pool.Submit(&good).ok());
  EXPECT_EQ(bad.done().get(), absl::InvalidArgumentError("this one"));
  EXPECT_EQ(bad.answered[8], 0);
  EXPECT_TRUE(good.done().get().ok());
}

}  // namespace
}  // namespace hmann::server
