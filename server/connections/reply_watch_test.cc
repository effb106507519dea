#include "server/connections/reply_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace hmann::server {
namespace {

using namespace std::chrono_literals;
using Clock = ReplyWatch::Clock;

/// A call that counts its cancellations.
struct Call {
  explicit Call(ReplyWatch* watch) : reply(watch, [this] { ++cancelled; }) {}
  int cancelled = 0;
  ReplyWatch::Reply reply;
};

TEST(ReplyWatch, WhatIsNotTakenInTimeIsCancelledOnce) {
  ReplyWatch watch(1000, 1h);
  Call waits(&watch), taken(&watch), goes_on(&watch), silent(&watch);
  waits.reply.Sent(0);  // an empty reply, too
  taken.reply.Sent(10);
  taken.reply.Taken(10);
  goes_on.reply.Sent(10);
  const auto begun = Clock::now();
  while (Clock::now() == begun) {
  }
  goes_on.reply.Taken(5);  // 5 are left, for another hour
  watch.CancelLate(begun + 59min);
  EXPECT_EQ(waits.cancelled, 0);
  watch.CancelLate(begun + 1h);
  watch.CancelLate(begun + 1h);
  EXPECT_EQ(waits.cancelled, 1);
  for (const Call* call : {&taken, &goes_on, &silent}) EXPECT_EQ(call->cancelled, 0);
  watch.CancelLate(Clock::now() + 1h);
  EXPECT_EQ(goes_on.cancelled, 1);
  EXPECT_EQ(waits.cancelled, 1);
}

TEST(ReplyWatch, WhereAllAreTooLargeTheOneThatWaitsLongestGoes) {
  ReplyWatch watch(100, 1h);
  Call first(&watch), second(&watch), third(&watch);
  first.reply.Sent(60);
  second.reply.Sent(40);
  EXPECT_EQ(first.cancelled, 0);
  second.reply.Sent(1);
  EXPECT_EQ(first.cancelled, 1);
  first.reply.Taken(60);  // too late: it no longer counts
  third.reply.Sent(59);
  EXPECT_EQ(second.cancelled, 0);
  third.reply.Sent(500);  // over the limit, but allowed alone
  EXPECT_EQ(second.cancelled, 1);
  EXPECT_EQ(third.cancelled, 0);
  {
    Call gone(&watch);
    gone.reply.Sent(1);
  }
  EXPECT_EQ(third.cancelled, 1);
}

TEST(ReplyWatch, ManyThreads) {
  ReplyWatch watch(2000, 1h);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const auto call = std::make_unique<Call>(&watch);
        call->reply.Sent(700);
        if (i % 2 == 0) call->reply.Taken(i % 4 == 0 ? 700 : 300);
        if (t == 0) watch.CancelLate(Clock::now() + 2h);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Call last(&watch);
  last.reply.Sent(2000);  // nothing is left of the others
  EXPECT_EQ(last.cancelled, 0);
  watch.CancelLate(Clock::now() + 1h);
  EXPECT_EQ(last.cancelled, 1);
}

}  // namespace
}  // namespace hmann::server
