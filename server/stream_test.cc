// SearchStream through a real server: the same answers as single calls, in any order, and
// every way for a stream to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "hmann/v1/search.grpc.pb.h"
#include "server/search_stream.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using client::SearchStream;
using client::StreamedAnswer;
using client::Vectors;
using testing::HasSubstr;

constexpr std::size_t kStreamed = 200;

Vectors Query(std::size_t i) { return Vectors::Raw(SampleQueries(i % 200, 1)); }

/// Sends all queries and receives in another thread; returns the answers by id.
std::map<std::uint64_t, absl::StatusOr<client::Answer>> Call(SearchStream stream,
                                                             std::size_t queries) {
  std::thread sender([&] {
    for (std::size_t i = 0; i < queries; ++i) EXPECT_TRUE(stream.Send(i, Query(i)).ok());
    EXPECT_TRUE(stream.DoneSending().ok());
  });
  std::map<std::uint64_t, absl::StatusOr<client::Answer>> answers;
  for (;;) {
    absl::StatusOr<std::optional<StreamedAnswer>> next = stream.Receive();
    EXPECT_TRUE(next.ok()) << next.status();
    if (!next.ok() || !next->has_value()) break;
    EXPECT_TRUE(answers.emplace((*next)->id, std::move((*next)->answer)).second) << (*next)->id;
  }
  sender.join();
  return answers;
}

class StreamTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}, {"cosine", CosineIndex()}});
    options.limits.max_ef = 20000;
    served_ = new Served(options);
  }
  static void TearDownTestSuite() {
    delete served_;
    served_ = nullptr;
  }
  static client::Client& client() { return *served_->client; }

  static Served* served_;
};
Served* StreamTest::served_ = nullptr;

TEST_F(StreamTest, AnswersAsSingleCallsDo) {
  const client::SearchParams options{.k = 7};
  const auto answers = Call(client().OpenStream("sift", options), kStreamed);
  ASSERT_EQ(answers.size(), kStreamed);
  for (const auto& [id, answer] : answers) {
    const absl::StatusOr<client::Answer> single = client().Search("sift", Query(id), options);
    ASSERT_TRUE(answer.ok() && single.ok()) << answer.status() << single.status();
    EXPECT_EQ(answer->ids, single->ids);
    EXPECT_EQ(answer->distances, single->distances);
    EXPECT_EQ(answer->params.ef_l0, single->params.ef_l0);
    EXPECT_FALSE(answer->counters.has_value());
  }
}

TEST_F(StreamTest, CountersAreOfEachQuery) {
  const auto answers = Call(client().OpenStream("sift", {.k = 5}, {.counters = true}), kStreamed);
  ASSERT_EQ(answers.size(), kStreamed);
  for (const auto& [id, answer] : answers) {
    const absl::StatusOr<client::Answer> single =
        client().Search("sift", Query(id), {.k = 5}, {.counters = true});
    ASSERT_TRUE(answer.ok() && answer->counters.has_value() && single.ok());
    EXPECT_EQ(answer->counters->distances_slow, single->counters->distances_slow);
    EXPECT_GT(answer->counters->distances_fast, 0u);
  }
}

TEST_F(StreamTest, SeveralStreamsAtOnce) {
  std::vector<std::thread> clients;
  clients.reserve(8);
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([] {
      for (const auto& [id, answer] : Call(client().OpenStream("sift", {.k = 3}), kStreamed))
        EXPECT_TRUE(answer.ok()) << answer.status();
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(StreamTest, ABadQueryFailsAlone) {
  SearchStream stream = client().OpenStream("cosine", {.k = 3});
  const std::vector<std::byte> zero(128), shorter(5);
  ASSERT_TRUE(stream.Send(1, Query(1)).ok());
  ASSERT_TRUE(stream.Send(2, Vectors::Raw(zero)).ok());
  ASSERT_TRUE(stream.Send(3, Vectors::Raw(shorter)).ok());
  ASSERT_TRUE(stream.Send(4, Query(4)).ok());
  ASSERT_TRUE(stream.DoneSending().ok());
  std::map<std::uint64_t, absl::StatusOr<client::Answer>> answers;
  for (int i = 0; i < 4; ++i) {
    auto next = stream.Receive();
    ASSERT_TRUE(next.ok() && next->has_value()) << next.status();
    answers.emplace((*next)->id, std::move((*next)->answer));
  }
  EXPECT_TRUE(answers.at(1).ok());
  EXPECT_TRUE(answers.at(4).ok());
  for (const std::uint64_t id : {2u, 3u}) {
    EXPECT_EQ(answers.at(id).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(answers.at(id).status().message()), HasSubstr("field search.query"));
    EXPECT_TRUE(HasDetail(answers.at(id).status(), "google.rpc.BadRequest"));
  }
  const auto end = stream.Receive();
  EXPECT_TRUE(end.ok() && !end->has_value()) << end.status();
}

TEST_F(StreamTest, WhatItCannotHaveEachQueryIsTold) {
  for (const auto& [index, options, code] :
       {std::tuple("none", client::SearchParams{.k = 3}, absl::StatusCode::kNotFound),
        {"sift", client::SearchParams{.k = 1 << 30}, absl::StatusCode::kInvalidArgument}}) {
    for (const auto& [id, answer] : Call(client().OpenStream(index, options), 10))
      EXPECT_EQ(answer.status().code(), code) << answer.status();
  }
}

TEST_F(StreamTest, APredicateIsRefusedBeforeItIsSent) {
  const Matches all(1, 0);
  const client::SearchParams options{.k = 3, .matches = &all};
  SearchStream stream = client().OpenStream("sift", options);
  const absl::Status batch = client().SearchBatch("sift", Query(1), options).status();
  for (const absl::Status& status :
       {stream.Send(1, Query(1)), stream.DoneSending(), stream.Receive().status(),
        client().Search("sift", Query(1), options).status(), batch}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("matches"));
  }
}

TEST_F(StreamTest, NothingIsAskedAndAllIsWell) {
  SearchStream stream = client().OpenStream("sift", {.k = 3});
  ASSERT_TRUE(stream.DoneSending().ok());
  const auto end = stream.Receive();
  EXPECT_TRUE(end.ok() && !end->has_value()) << end.status();
}

TEST_F(StreamTest, AClientThatDoesNotReceiveIsHeldBack) {
  std::vector<std::thread> clients;
  SearchStream stream =
      client().OpenStream("sift", {.k = 1000}, {.deadline = std::chrono::seconds(2)});
  std::size_t sent = 0;
  while (stream.Send(sent, Query(sent)).ok()) ++sent;
  // Replies have 12 kB. Sent queries fill the server, its reply window and ours.
  EXPECT_GT(sent, SearchStreamCall::kMostUnanswered / 2);
  EXPECT_LT(sent, 200000u);
  absl::StatusOr<std::optional<StreamedAnswer>> next = stream.Receive();
  while (next.ok() && next->has_value()) next = stream.Receive();
  EXPECT_EQ(next.status().code(), absl::StatusCode::kDeadlineExceeded) << next.status();
}

TEST_F(StreamTest, OneThatIsGivenUpLeavesTheServerFree) {
  client::Cancellation cancellation;
  for (int i = 0; i < 20; ++i) {
    SearchStream stream =
        client().OpenStream("sift", SlowParams(), {.cancellation = &cancellation});
    for (int j = 0; j < i; ++j) EXPECT_TRUE(stream.Send(j, Query(j)).ok());
  }
  cancellation.Cancel();
  SearchStream stream = client().OpenStream("sift", SlowParams(), {.cancellation = &cancellation});
  (void)stream.Send(1, Query(1));
  EXPECT_EQ(stream.Receive().status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(client().Search("sift", Query(0), {.k = 1}).ok());
}

TEST_F(StreamTest, OptionsAndIndexHoldOnUntilOthersCome) {
  const auto channel = ChannelTo(served_->server->address());
  const auto stub = v1::Search::NewStub(channel);
  grpc::ClientContext context;
  const auto messages = stub->SearchStream(&context);
  v1::SearchStreamRequest request;
  v1::SearchStreamResponse response;
  const auto ask = [&](std::uint64_t id, const char* index, std::uint32_t k) {
    request.Clear();
    request.set_id(id);
    if (index != nullptr) request.mutable_search()->set_index(index);
    if (k > 0) request.mutable_search()->mutable_options()->set_k(k);
    const auto row = SampleQueries(0, 1);
    request.mutable_search()->mutable_query()->set_raw(row.data(), row.size());
    EXPECT_TRUE(messages->Write(request));
    EXPECT_TRUE(messages->Read(&response));
    EXPECT_EQ(response.id(), id);
    return response.has_answer() ? response.answer().ids_size() : -1;
  };
  EXPECT_EQ(ask(1, nullptr, 3), -1);  // no index is known
  EXPECT_EQ(response.failure().code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ask(2, "sift", 3), 3);
  EXPECT_EQ(ask(3, nullptr, 0), 3);
  EXPECT_EQ(ask(4, nullptr, 5), 5);
  EXPECT_EQ(ask(5, "cosine", 0), 5);
  EXPECT_EQ(ask(6, "none", 9), -1);
  EXPECT_EQ(ask(7, nullptr, 0), -1);
  EXPECT_EQ(response.failure().code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ask(8, "sift", 0), 9);
  messages->WritesDone();
  EXPECT_FALSE(messages->Read(&response));
  EXPECT_TRUE(messages->Finish().ok());
}

TEST_F(StreamTest, BytesThatAreNoMessageEndIt) {
  grpc::GenericStub stub(ChannelTo(served_->server->address()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto call = stub.PrepareCall(&context, "/hmann.v1.Search/SearchStream", &queue);
  const auto next = [&] { return queue.Next(&tag, &ok) && ok; };
  call->StartCall(nullptr);
  ASSERT_TRUE(next());
  const grpc::Slice none("\xff\xff\xff\xff");
  call->Write(grpc::ByteBuffer(&none, 1), nullptr);
  ASSERT_TRUE(next());
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(next());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
}

TEST(StreamShutdownTest, WhatWasTakenIsAnsweredThenTheStreamEnds) {
  Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  SearchStream stream = served.client->OpenStream("sift", {.k = 3});
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(stream.Send(i, Query(i)).ok());
  for (int i = 0; i < 10; ++i) {
    const auto next = stream.Receive();
    ASSERT_TRUE(next.ok() && next->has_value() && (*next)->answer.ok()) << next.status();
  }
  served.server->BeginDrain();
  std::thread shutdown([&] { served.server->Shutdown(std::chrono::seconds(10)); });
  const auto end = stream.Receive();
  EXPECT_EQ(end.status().code(), absl::StatusCode::kUnavailable) << end.status();
  EXPECT_EQ(Reason(end.status()), "SERVER_STOPPING");
  shutdown.join();
}

}  // namespace
}  // namespace hmann::server
