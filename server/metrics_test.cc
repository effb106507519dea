// Tests what operations tools see over HTTP: the pages of a real server, requested by a
// real client.
#include "server/core/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "httplib.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::uint32_t kMetricsDim = 128;

ServerOptions WithHttp(std::vector<IndexSpec> indexes) {
  ServerOptions options = LoopbackOptions(std::move(indexes));
  options.http = "127.0.0.1:0";
  return options;
}

httplib::Result Get(const Server& server, const std::string& page) {
  httplib::Client client(absl::StrCat("http://", server.http_address()));
  client.set_read_timeout(60s);
  return client.Get(page);
}

std::string Text(const Server& server) {
  const httplib::Result got = Get(server, "/metrics");
  EXPECT_TRUE(got) << httplib::to_string(got.error());
  return got ? got->body : "";
}

/// The value of the line that begins with `series`.
std::optional<double> Value(const std::string& text, const std::string& series) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, series + " ") && absl::SimpleAtod(line, &value)) return value;
  }
  return std::nullopt;
}

absl::Status SearchIndex(Served& served, const std::string& index,
                         const client::SearchParams& options = {}) {
  return served.client->Search(index, client::Vectors::Raw(SampleQueries(0, 1)), options).status();
}

TEST(MetricsTest, CallsQueriesAndTheirWorkByIndex) {
  Served served(WithHttp({{"sift", SampleIndex()}}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(SearchIndex(served, "sift"), absl::OkStatus());
  EXPECT_TRUE(
      served.client->SearchBatch("sift", client::Vectors::Raw(SampleQueries(0, 5)), {}).ok());
  const auto counted = served.client->Search("sift", client::Vectors::Raw(SampleQueries(0, 1)), {},
                                             {.counters = true});
  ASSERT_TRUE(counted.ok());
  const std::string text = Text(*served.server);
  EXPECT_EQ(Value(text, R"(hmann_queries_total{index="sift"})"), 9);
  EXPECT_EQ(Value(text, R"(hmann_request_seconds_count{index="sift",method="Search"})"), 4);
  EXPECT_EQ(Value(text, R"(hmann_request_seconds_count{index="sift",method="SearchBatch"})"), 1);
  EXPECT_GT(*Value(text, R"(hmann_request_seconds_sum{index="sift",method="Search"})"), 0);
  // The first query five times, and four others.
  EXPECT_GT(*Value(text, R"(hmann_node_accesses_total{index="sift"})"),
            5 * static_cast<double>(counted->counters->node_accesses));
  EXPECT_GT(*Value(text, R"(hmann_distances_total{index="sift"})"), 9 * kMetricsDim / 2);
  EXPECT_EQ(Value(text, R"(hmann_index_state{index="sift",state="serving"})"), 1);
  EXPECT_EQ(Value(text, R"(hmann_index_state{index="sift",state="failed"})"), 0);
  EXPECT_GT(*Value(text, R"(hmann_placed_bytes{index="sift",structure="l0",tier="mapped"})"), 1e6);
  EXPECT_EQ(Value(text, R"(hmann_queued_requests{lane="quick"})"), 0);
  EXPECT_EQ(Value(text, "hmann_connections"), 1);
  EXPECT_EQ(Value(text, "hmann_connections_accepted_total"), 1);
  EXPECT_EQ(Value(text, R"(hmann_connections_refused_total{reason="streams"})"), 0);
}

TEST(MetricsTest, FailuresByCodeAndReasonAndNoNameOfAClient) {
  ServerOptions options = WithHttp({{"sift", SampleIndex()}});
  options.most_work = 1ns;
  Served served(options);
  EXPECT_EQ(SearchIndex(served, "sift", SlowParams()).code(), absl::StatusCode::kResourceExhausted);
  const std::string before = Text(*served.server);
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(SearchIndex(served, absl::StrCat("of_a_client_", i)).code(),
              absl::StatusCode::kNotFound);
  const std::string text = Text(*served.server);
  EXPECT_EQ(Value(text, R"(hmann_failed_requests_total{code="RESOURCE_EXHAUSTED",index="sift",)"
                        R"(method="Search",reason="WORK_TOO_LARGE"})"),
            1);
  EXPECT_EQ(Value(text, R"(hmann_failed_requests_total{code="NOT_FOUND",index="",method="Search",)"
                        R"(reason=""})"),
            50);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            std::count(before.begin(), before.end(), '\n') + 1);
}

TEST(MetricsTest, ReadyOnceLoadedThoughOneFailedAndNotWhileItDrains) {
  Served served(WithHttp({{"sift", SampleIndex()}, {"gone", "/nowhere/gone.hmann"}}));
  const httplib::Result ready = Get(*served.server, "/readyz");
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->status, 200);
  EXPECT_EQ(ready->body, "sift: serving\ngone: failed\n");
  served.server->BeginDrain();
  EXPECT_EQ(Get(*served.server, "/readyz")->status, 503);
  EXPECT_EQ(Get(*served.server, "/livez")->status, 200);
  EXPECT_EQ(Get(*served.server, "/else")->status, 404);
}

TEST(MetricsTest, NonsenseKeepsNobodyAway) {
  Served served(WithHttp({{"sift", SampleIndex()}}));
  // gRPC's preface is not HTTP/1.
  const std::shared_ptr<grpc::Channel> channel = ChannelTo(served.server->http_address());
  EXPECT_FALSE(channel->WaitForConnected(std::chrono::system_clock::now() + 100ms));
  httplib::Client large(absl::StrCat("http://", served.server->http_address()));
  const httplib::Result refused = large.Post("/metrics", std::string(1 << 20, 'x'), "text/plain");
  EXPECT_TRUE(!refused || refused->status >= 400);
  EXPECT_EQ(Get(*served.server, "/livez")->body, "ok\n");
  EXPECT_EQ(SearchIndex(served, "sift"), absl::OkStatus());
}

TEST(MetricsTest, WhatCannotBeBoundOrMeantIsNamed) {
  Served served(WithHttp({{"sift", SampleIndex()}}));
  ServerOptions taken = WithHttp({{"sift", SampleIndex()}});
  taken.http = served.server->http_address();
  EXPECT_THAT(std::string(Server::Start(taken).status().message()),
              HasSubstr("Address already in use"));
  taken.http = "0.0.0.0:0";
  EXPECT_THAT(std::string(Server::Start(taken).status().message()), HasSubstr("--insecure"));
  taken.http = "nonsense";
  EXPECT_FALSE(Server::Start(taken).ok());
}

}  // namespace
}  // namespace hmann::server
