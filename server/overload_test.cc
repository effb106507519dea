// A server with more work than it accepts, clients that give up, and deadlines. "Slow" is
// real: each query expands every node. A batch of them would take minutes on the one
// thread of these servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <future>
#include <thread>

#include "datasets/testing/temp_folder.h"
#include "grpcpp/client_context.h"
#include "hmann/v1/search.grpc.pb.h"
#include "httplib.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kManySlow = 4096;

// printf %s much | sha256sum; likewise for "little".
const char kTokens[] =
    "543b1c4bd4f6b184ca2aef09ca8e5aeadb04907efa0ac7b81b00f8b9ea8133cd read\n"
    "180ca01b95f0dfdd36fbb600e51cf6e46c8ef468de56b017847886fefaf7b6f9 read\n";

class OverloadTest : public testing::Test {
 protected:
  OverloadTest() : slow_queries_(RepeatedQueries(kManySlow)) {}

  static ServerOptions OneThread() {
    ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}});
    options.threads = 1;
    options.queue = 1;
    options.most_work = 1h;  // however slow this machine is
    return options;
  }

  /// Sends a batch that would run for minutes, from another thread. It retries while
  /// refused, since searches that probe for its arrival may fill the queue.
  std::future<absl::Status> SendSlowBatch(client::Client& client, client::CallOptions call) {
    return std::async(std::launch::async, [this, &client, call] {
      absl::Status status;
      do {
        status = client
                     .SearchBatch("sift",
                                  client::Vectors::Raw(slow_queries_, slow_queries_.size() / 128),
                                  SlowParams(), call)
                     .status();
      } while (absl::IsResourceExhausted(status));
      return status;
    });
  }

  /// A search that uses the same lane as a batch.
  static absl::Status SlowSearch(client::Client& client, std::chrono::nanoseconds deadline = 60s) {
    return client
        .Search("sift", client::Vectors::Raw(SampleQueries(0, 1)), SlowParams(),
                {.deadline = deadline})
        .status();
  }

  /// Sends searches until the server refuses one, which means that the batch has arrived.
  static absl::Status AskUntilRefused(client::Client& client) {
    for (;;) {
      if (absl::Status status = SlowSearch(client); !status.ok()) return status;
      std::this_thread::sleep_for(5ms);  // or the batch would never find room
    }
  }

  const std::vector<std::byte> slow_queries_;
};

TEST_F(OverloadTest, AFullQueueRefusesWithAReasonAndADelayAndCancellingFreesTheThread) {
  Served served(OneThread());
  client::Cancellation cancellation;
  std::future<absl::Status> batch =
      SendSlowBatch(*served.client, {.deadline = 1h, .cancellation = &cancellation});
  const absl::Status refused = AskUntilRefused(*served.client);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(Reason(refused), "QUEUE_FULL");
  EXPECT_TRUE(HasDetail(refused, "google.rpc.RetryInfo"));
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("QUEUE_FULL; retry after"));

  // The rest of the batch would take longer than the deadline of the next search. That
  // search is answered only because the batch stops.
  cancellation.Cancel();
  EXPECT_EQ(batch.get().code(), absl::StatusCode::kCancelled);
  absl::Status status;
  do {
    status = SlowSearch(*served.client);
  } while (Reason(status) == "QUEUE_FULL");
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(OverloadTest, AClientWithARetryPolicyIsToldWhenToComeBack) {
  Served served(OneThread());
  client::Cancellation cancellation;
  std::future<absl::Status> batch =
      SendSlowBatch(*served.client, {.deadline = 1h, .cancellation = &cancellation});
  EXPECT_EQ(Reason(AskUntilRefused(*served.client)), "QUEUE_FULL");
  const auto stub = v1::Search::NewStub(ChannelTo(served.server->address()));
  v1::SearchRequest request;
  const auto query = SampleQueries(0, 1);
  request.set_index("sift");
  request.mutable_query()->set_raw(query.data(), query.size());
  v1::SearchParams& params = *request.mutable_options();
  params.set_k(10);  // the other ones are SlowParams, too
  params.set_ef_l1(1000);
  params.set_ef_l0(10000);
  params.set_mode(v1::MODE_GRAPH);
  grpc::ClientContext context;
  v1::SearchResponse answer;
  EXPECT_EQ(stub->Search(&context, request, &answer).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto& trailing = context.GetServerTrailingMetadata();
  const auto found = trailing.find("grpc-retry-pushback-ms");
  ASSERT_NE(found, trailing.end());
  int delay_ms = 0;
  EXPECT_TRUE(
      absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &delay_ms));
  EXPECT_GT(delay_ms, 0);
  cancellation.Cancel();
  EXPECT_EQ(batch.get().code(), absl::StatusCode::kCancelled);
}

TEST_F(OverloadTest, MemoryOfRequestsAndRepliesIsBounded) {
  ServerOptions options = OneThread();
  options.queue = 100;
  options.most_bytes = 1000;
  options.http = "127.0.0.1:0";
  Served served(options);
  client::Cancellation cancellation;
  std::future<absl::Status> batch =
      SendSlowBatch(*served.client, {.deadline = 1h, .cancellation = &cancellation});
  // The first request may take more than the bound: nothing may come before the batch.
  httplib::Client http("http://" + served.server->http_address());
  while (http.Get("/metrics")->body.find("hmann_request_bytes 0\n") != std::string::npos)
    std::this_thread::sleep_for(5ms);
  // It waits for half of its time, which is shorter than the batch.
  const absl::Status refused = SlowSearch(*served.client, 2s);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(Reason(refused), "MEMORY_FULL");
  EXPECT_TRUE(HasDetail(refused, "google.rpc.RetryInfo"));
  const std::vector<std::uint64_t> labels(100);
  EXPECT_EQ(Reason(served.client->Get("sift", labels, {.deadline = 2s}).status()), "MEMORY_FULL");
  cancellation.Cancel();
  EXPECT_EQ(batch.get().code(), absl::StatusCode::kCancelled);
}

TEST_F(OverloadTest, ADeadlineEndsTheBatchAndFreesTheThread) {
  Served served(OneThread());
  EXPECT_EQ(SendSlowBatch(*served.client, {.deadline = 200ms}).get().code(),
            absl::StatusCode::kDeadlineExceeded);
  absl::Status status;
  do {
    status = SlowSearch(*served.client);
  } while (Reason(status) == "QUEUE_FULL");
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(OverloadTest, ASingleSearchIsNotHeldUpByABatch) {
  ServerOptions options = OneThread();
  options.queue = 100;
  Served served(options);
  client::Cancellation cancellation;
  std::future<absl::Status> batch =
      SendSlowBatch(*served.client, {.deadline = 1h, .cancellation = &cancellation});
  // They have earlier deadlines than the batch, so they run before it; behind the whole
  // batch they would miss their deadlines.
  for (int i = 0; i < 5; ++i) {
    const absl::Status status = SlowSearch(*served.client, 30s);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(batch.wait_for(0s), std::future_status::timeout);
  cancellation.Cancel();
  EXPECT_EQ(batch.get().code(), absl::StatusCode::kCancelled);
}

TEST_F(OverloadTest, AShortSearchIsAnsweredWhileLongOnesFillTheServer) {
  Served served(OneThread());
  client::Cancellation cancellation;
  std::future<absl::Status> batch =
      SendSlowBatch(*served.client, {.deadline = 1h, .cancellation = &cancellation});
  EXPECT_EQ(Reason(AskUntilRefused(*served.client)), "QUEUE_FULL");
  for (int i = 0; i < 100; ++i) {
    const absl::Status status =
        served.client->Search("sift", client::Vectors::Raw(SampleQueries(0, 1)), {}).status();
    EXPECT_TRUE(status.ok()) << status;
  }
  cancellation.Cancel();
  EXPECT_EQ(batch.get().code(), absl::StatusCode::kCancelled);
}

TEST_F(OverloadTest, WhatCannotBeAnsweredInTimeIsRefusedAtOnce) {
  ServerOptions options = OneThread();
  options.queue = 100;
  Served served(options);
  client::Cancellation cancellation;
  std::future<absl::Status> batch =
      SendSlowBatch(*served.client, {.deadline = 1h, .cancellation = &cancellation});
  // A second such batch cannot finish in a second. Its refusal, or its missed deadline,
  // shows whether the first has arrived.
  absl::Status second;
  do {
    second =
        served.client
            ->SearchBatch("sift", client::Vectors::Raw(slow_queries_, slow_queries_.size() / 128),
                          SlowParams(), {.deadline = 1s})
            .status();
  } while (absl::IsDeadlineExceeded(second));
  EXPECT_EQ(Reason(second), "NO_TIME") << second;
  EXPECT_TRUE(HasDetail(second, "google.rpc.RetryInfo"));
  cancellation.Cancel();
  EXPECT_EQ(batch.get().code(), absl::StatusCode::kCancelled);
}

TEST_F(OverloadTest, WhoSendsMuchGivesWayToWhoSendsLittle) {
  const TempFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return folder / name;
  };
  ServerOptions options = OneThread();
  options.queue = 2;
  options.tokens = write("tokens", kTokens);
  Served served(options);
  const auto client = [&](const std::string& token) {
    return *client::Client::Connect(served.server->address(),
                                    {.own_connection = true, .token_file = write(token, token)});
  };
  client::Client much = client("much"), little = client("little");
  std::array<client::Cancellation, 2> cancellations;
  std::array<std::future<absl::Status>, 2> batches;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    batches[i] = std::async(std::launch::async, [&, i] {
      absl::Status status;
      do {
        status = much.SearchBatch("sift",
                                  client::Vectors::Raw(slow_queries_, slow_queries_.size() / 128),
                                  SlowParams(), {.deadline = 1h, .cancellation = &cancellations[i]})
                     .status();
      } while (Reason(status) == "QUEUE_FULL");
      return status;
    });
  }
  EXPECT_EQ(Reason(AskUntilRefused(much)), "QUEUE_FULL");
  EXPECT_EQ(SlowSearch(little), absl::OkStatus());  // one batch has not started
  while (batches[0].wait_for(1ms) == std::future_status::timeout &&
         batches[1].wait_for(1ms) == std::future_status::timeout) {
  }
  for (client::Cancellation& cancellation : cancellations) cancellation.Cancel();
  std::vector<std::string> ends;
  for (auto& batch : batches) {
    const absl::Status status = batch.get();
    ends.push_back(absl::IsCancelled(status) ? "cancelled" : Reason(status));
  }
  EXPECT_THAT(ends, testing::UnorderedElementsAre("cancelled", "OVER_SHARE"));
}

TEST_F(OverloadTest, TheServerSetsADeadlineWhereTheClientSetsNone) {
  ServerOptions options = OneThread();
  options.default_deadline = 100ms;
  Served served(options);
  const auto stub = v1::Search::NewStub(ChannelTo(served.server->address()));
  v1::SearchBatchRequest request;
  request.set_index("sift");
  request.mutable_queries()->set_raw(slow_queries_.data(), slow_queries_.size());
  request.mutable_queries()->set_count(kManySlow);
  request.mutable_options()->set_k(10);
  request.mutable_options()->set_ef_l0(10000);
  grpc::ClientContext context;
  v1::SearchBatchResponse response;
  EXPECT_EQ(stub->SearchBatch(&context, request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(OverloadTest, ACancelledCallIsNotBegun) {
  Served served(OneThread());
  client::Cancellation cancellation;
  cancellation.Cancel();
  EXPECT_EQ(
      SendSlowBatch(*served.client, {.deadline = 1h, .cancellation = &cancellation}).get().code(),
      absl::StatusCode::kCancelled);
}

TEST_F(OverloadTest, VectorsByLabelAreAdmittedAsSearchesAre) {
  ServerOptions options = OneThread();
  options.most_work = 1ns;
  Served served(options);
  const std::vector<std::uint64_t> labels = {7};
  const absl::Status refused = served.client->Get("sift", labels).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(Reason(refused), "WORK_TOO_LARGE");
}

}  // namespace
}  // namespace hmann::server
