// Tests what operations tools see over HTTP: the pages of a real server, requested by a
// real client.
#include "server/core/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "datasets/testing/temp_folder.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "hmann/collection.h"
#include "httplib.h"
#include "server/testing/fixture.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

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

/// A collection of 8-d u8 in a folder of its own.
class LiveFolder {
 public:
  LiveFolder() {
    CreateCollection create;
    create.dtype = DType::kU8;
    create.dim = 8;
    create.build.m = 4;
    EXPECT_TRUE(Collection::Create(path(), create).ok());
  }
  std::string path() const { return folder_ / "c.live"; }
  static client::Vectors Rows(std::size_t count) {
    static const std::vector<std::byte> kBytes(64, std::byte{3});  // Vectors are a view
    return client::Vectors::Raw(std::span(kBytes).first(8 * count));
  }

 private:
  const TempFolder folder_;
};

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
      served.client
          ->SearchBatch("sift",
                        client::Vectors::Raw(SampleQueries(0, 5), SampleQueries(0, 5).size() / 128),
                        {})
          .ok());
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

TEST(MetricsTest, WritesByMethodTheirRowsAndTheRoomOfACollection) {
  const LiveFolder live;
  ServerOptions options = WithHttp({{"live", live.path()}});
  options.indexes[0].delta_bytes = 2 << 20;
  Served served(options);
  const auto shown = [&](const std::string& metric, const std::string& labels = "") {
    return Value(Text(*served.server), absl::StrCat(metric, "{index=\"live\"", labels, "}"));
  };
  const auto calls = [&](const std::string& method) {
    return shown("hmann_request_seconds_count", absl::StrCat(",method=\"", method, "\""));
  };
  const std::vector<std::uint64_t> three = {1, 2, 3}, two = {1, 99}, one = {2};
  const std::vector<std::string> attributes = {R"({"a":1})"};
  ASSERT_TRUE(served.client->Put("live", {.labels = three}, LiveFolder::Rows(3)).ok());
  ASSERT_TRUE(served.client->Put("live", {.labels = one}, LiveFolder::Rows(1)).ok());
  ASSERT_TRUE(served.client->Delete("live", {.labels = two}).ok());
  ASSERT_TRUE(served.client->Update("live", {.labels = one}, attributes).ok());
  EXPECT_EQ(calls("Put"), 2);
  EXPECT_EQ(calls("Delete"), 1);
  EXPECT_EQ(calls("Update"), 1);
  EXPECT_EQ(calls("Write"), std::nullopt);
  EXPECT_EQ(calls("Compact"), std::nullopt);
  EXPECT_EQ(shown("hmann_written_rows_total"), 4 + 1 + 1);
  EXPECT_EQ(shown("hmann_queries_total"), 0);
  EXPECT_EQ(shown("hmann_collection_delta_limit_bytes"), 2 << 20);
  EXPECT_GT(shown("hmann_collection_dead_bytes"), 0);
  EXPECT_LT(shown("hmann_collection_dead_bytes"), shown("hmann_collection_delta_bytes"));
  EXPECT_EQ(shown("hmann_collection_waiting_writes"), 0);
  EXPECT_EQ(shown("hmann_collection_merge_failures_total"), 0);
  EXPECT_EQ(shown("hmann_collection_lost_writes"), 0);
  while (shown("hmann_collection_free_disk_bytes") == 0) std::this_thread::sleep_for(5ms);
  EXPECT_LE(shown("hmann_collection_free_disk_bytes"),
            static_cast<double>(std::filesystem::space(live.path()).capacity));
  ASSERT_TRUE(served.client->Compact("live").ok());
  EXPECT_EQ(calls("Compact"), 1);
  EXPECT_EQ(shown("hmann_written_rows_total"), 6) << "a merge writes none";
  client::WriteStream stream = served.client->OpenWrites("live");
  ASSERT_TRUE(stream.Put(1, {.labels = three}, LiveFolder::Rows(3)).ok());
  ASSERT_TRUE((*stream.Receive())->written.ok());
  EXPECT_EQ(calls("WriteStream"), 1);
  EXPECT_EQ(shown("hmann_written_rows_total"), 9);
}

TEST(MetricsTest, WhatFailsInTheBackgroundOfACollectionIsLoggedOncePerChange) {
  const LiveFolder live;
  const std::string manifest = live.path() + "/MANIFEST", good = ReadAll(manifest);
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  {
    ServerOptions options = WithHttp({{"live", live.path()}});
    options.indexes[0].follow = true;
    Served served(options);
    const auto failed = [&] {
      return Value(Text(*served.server), R"(hmann_collection_merge_failed{index="live"})");
    };
    for (const double now : {1, 0, 1, 0}) {
      std::ofstream(manifest + ".new", std::ios::binary) << (now == 1 ? "not a manifest" : good);
      std::filesystem::rename(manifest + ".new", manifest);
      while (failed() != now) std::this_thread::sleep_for(10ms);
      std::this_thread::sleep_for(1500ms);  // a look at it, and perhaps a second
    }
  }
  spdlog::set_default_logger(before);
  const std::string lines = log.str();
  const auto count = [&](const std::string& words) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = lines.find(words, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("index live: in the background: "), 2u) << lines;
  EXPECT_EQ(count("index live: what failed in the background succeeds again"), 2u) << lines;
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

TEST(MetricsTest, ConnectionsBeyondALimitAreClosedAndCounted) {
  for (const auto& [reason, all, of_one] :
       {std::tuple("connections", 2u, 1000u), {"peer", 1000u, 2u}}) {
    ServerOptions options = WithHttp({{"sift", SampleIndex()}});
    options.connections.connections = all;
    options.connections.connections_per_peer = of_one;
    Served served(options);
    const auto connect = [&] {
      return client::Client::Connect(served.server->address(),
                                     {.own_connection = true, .retry = false});
    };
    EXPECT_EQ(SearchIndex(served, "sift"), absl::OkStatus());
    auto second = connect(), third = connect();
    EXPECT_TRUE(second->List().ok());
    EXPECT_EQ(third->List().status().code(), absl::StatusCode::kUnavailable) << reason;
    EXPECT_EQ(SearchIndex(served, "sift"), absl::OkStatus()) << "the first ones stay";
    const std::string text = Text(*served.server);
    EXPECT_EQ(Value(text, "hmann_connections"), 2);
    EXPECT_GE(
        *Value(text, absl::StrCat("hmann_connections_refused_total{reason=\"", reason, "\"}")), 1);
  }
}

TEST(MetricsTest, ClientsReconnectAtTheAgeOfAConnectionAndAStreamOutlivesIt) {
  ServerOptions options = WithHttp({{"sift", SampleIndex()}});
  options.connections.age = 200ms;
  Served served(options);
  auto stream = served.client->OpenStream("sift", {.k = 3}, {.deadline = 60s});
  const auto answers = [&] {
    EXPECT_TRUE(stream.Send(1, client::Vectors::Raw(SampleQueries(0, 1))).ok());
    const auto next = stream.Receive();
    return next.ok() && next->has_value() && (*next)->answer.ok();
  };
  ASSERT_TRUE(answers());
  while (*Value(Text(*served.server), "hmann_connections_accepted_total") < 3)
    EXPECT_EQ(SearchIndex(served, "sift"), absl::OkStatus());
  EXPECT_TRUE(answers()) << "on the first connection";
}

TEST(MetricsTest, VectorsByLabelAreNoQueries) {
  Served served(WithHttp({{"sift", SampleIndex()}}));
  const std::vector<std::uint64_t> labels = {1, 2, 3};
  EXPECT_TRUE(served.client->Get("sift", labels).ok());
  const std::string text = Text(*served.server);
  EXPECT_EQ(Value(text, R"(hmann_request_seconds_count{index="sift",method="Get"})"), 1);
  EXPECT_EQ(Value(text, R"(hmann_queries_total{index="sift"})"), 0);
}

TEST(MetricsTest, NotReadyWhileAnIndexLoadsOrIfNoneIsServed) {
  ServerOptions options = WithHttp({{"none", "/nowhere/none.hmann"}});
  const Served failed(options);
  const httplib::Result none = Get(*failed.server, "/readyz");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->status, 503);
  EXPECT_EQ(none->body, "none: failed\n");
  options.indexes.clear();
  for (int i = 0; i < 10; ++i) options.indexes.push_back({absl::StrCat("copy", i), SampleIndex()});
  const auto server = *Server::Start(options);  // it loads them after this
  int loading = 0;
  for (;;) {
    const httplib::Result page = Get(*server, "/readyz");
    ASSERT_TRUE(page);
    const bool ready = !absl::StrContains(page->body, "loading");
    EXPECT_EQ(page->status, ready ? 200 : 503) << page->body;
    if (ready) break;
    ++loading;
  }
  EXPECT_GT(loading, 0);
}

TEST(MetricsTest, HealthNeedsNoTokenAndFailuresOfEveryMethodAreCounted) {
  const TempFolder folder;
  ServerOptions options = WithHttp({{"sift", SampleIndex()}});
  options.tokens = folder.Write("tokens", absl::StrCat(std::string(64, '0'), " read\n"));
  Served served(options);
  EXPECT_EQ(served.client->List().status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(served.client->Describe("sift").status().code(), absl::StatusCode::kUnauthenticated);
  const auto health = grpc::health::v1::Health::NewStub(ChannelTo(served.server->address()));
  for (const auto& [service, code] : {std::pair("hmann.index.sift", grpc::StatusCode::OK),
                                      {"hmann.index.none", grpc::StatusCode::NOT_FOUND}}) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse response;
    request.set_service(service);
    EXPECT_EQ(health->Check(&context, request, &response).error_code(), code) << service;
  }
  const std::string text = Text(*served.server);
  for (const char* method : {"List", "Describe"}) {
    EXPECT_EQ(Value(text, absl::StrCat(R"(hmann_failed_requests_total{code="UNAUTHENTICATED",)"
                                       R"(index="",method=")",
                                       method, R"(",reason="TOKEN_MISSING"})")),
              1);
  }
  EXPECT_EQ(Value(text, R"(hmann_failed_requests_total{code="NOT_FOUND",index="",method="Health",)"
                        R"(reason=""})"),
            1);
  EXPECT_EQ(Value(text, R"(hmann_request_seconds_count{index="",method="Health"})"), 1);
}

TEST(MetricsTest, ReadsOfADeviceAreCounted) {
  ServerOptions options = WithHttp({{"sift", SampleIndex()}});
  options.open.slow = "nvme";
  Served served(options);
  const auto counted = served.client->Search("sift", client::Vectors::Raw(SampleQueries(0, 1)), {},
                                             {.counters = true});
  if (absl::StrContains(counted.status().message(), "refuses O_DIRECT")) GTEST_SKIP();
  ASSERT_TRUE(counted.ok()) << counted.status();
  const std::string text = Text(*served.server);
  EXPECT_GT(counted->counters->io_reads, 0u);
  EXPECT_EQ(Value(text, R"(hmann_device_reads_total{index="sift"})"),
            static_cast<double>(counted->counters->io_reads));
  EXPECT_EQ(Value(text, R"(hmann_device_read_bytes_total{index="sift"})"),
            static_cast<double>(counted->counters->io_bytes));
}

TEST(MetricsTest, BytesInPlaceAreCheckedOnceAndCounted) {
  ServerOptions options = WithHttp({{"sift", SampleIndex()}});
  options.scrub_bytes_per_second = 1 << 30;
  Served served(options);
  const auto all = static_cast<double>((*Index::Open(SampleIndex()))->bytes_in_place());
  const auto checked = [&] {
    return *Value(Text(*served.server), R"(hmann_scrubbed_bytes_total{index="sift"})");
  };
  while (checked() < all) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(checked(), all) << "the next pass is due in an hour";
}

TEST(MetricsTest, AFileThatIsNotAcceptedIsCounted) {
  const TempFolder folder;
  ServerOptions options = WithHttp({{"sift", SampleIndex()}});
  options.tokens = folder.Write("tokens", absl::StrCat(std::string(64, '0'), " read\n"));
  Served served(options);
  const auto failures = [&] { return *Value(Text(*served.server), "hmann_reload_failures_total"); };
  EXPECT_EQ(failures(), 0);
  folder.Write("tokens", "a token itself");
  while (failures() == 0) std::this_thread::sleep_for(20ms);  // or the test runs out of time
}

/// A server on whose one thread a batch of slow queries runs until it is destroyed.
class BusyServer {
 public:
  BusyServer() : served(Options()), queries_(RepeatedQueries(4096)) {
    batch_ = std::async(std::launch::async, [this] {
      absl::Status status;
      do {
        status = Batch(&of_batch_);
      } while (absl::IsResourceExhausted(status));  // another call had the only place
      return status;
    });
  }
  ~BusyServer() {
    of_batch_.Cancel();
    EXPECT_EQ(batch_.get().code(), absl::StatusCode::kCancelled);
  }
  BusyServer(const BusyServer&) = delete;
  BusyServer& operator=(const BusyServer&) = delete;

  absl::Status Batch(client::Cancellation* cancellation) {
    return served.client
        ->SearchBatch("sift", client::Vectors::Raw(queries_, queries_.size() / 128), SlowParams(),
                      {.deadline = 1h, .cancellation = cancellation})
        .status();
  }
  double Shown(const std::string& series) const {
    return Value(Text(*served.server), series).value_or(0);
  }

  Served served;

 private:
  static ServerOptions Options() {
    ServerOptions options = WithHttp({{"sift", SampleIndex()}});
    options.threads = 1;
    options.queue = 1;
    options.most_work = 1h;  // however slow this machine is
    return options;
  }

  const std::vector<std::byte> queries_;
  client::Cancellation of_batch_;
  std::future<absl::Status> batch_;
};

TEST(MetricsTest, WhatWaitsAndWhatRunsIsShown) {
  BusyServer busy;
  while (busy.Shown(R"(hmann_busy_threads{lane="bulk"})") == 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(busy.Shown(R"(hmann_queued_requests{lane="bulk"})"), 1) << "most of its queries wait";
  EXPECT_GT(busy.Shown(R"(hmann_queued_seconds{lane="bulk"})"), 0);
  EXPECT_GE(busy.Shown("hmann_request_bytes"), 4096 * kMetricsDim);
  EXPECT_EQ(busy.Shown(R"(hmann_busy_threads{lane="quick"})"), 0);
}

TEST(MetricsTest, ABatchThatFollowsARefusalWaitsUnread) {
  BusyServer busy;
  // The index of a call is known only once its request is read.
  const std::string unread = R"(hmann_failed_requests_total{code="CANCELLED",index="",)"
                             R"(method="SearchBatch",reason=""})";
  while (busy.Shown(unread) == 0) {
    client::Cancellation cancellation;
    std::thread soon([&] {
      std::this_thread::sleep_for(20ms);
      cancellation.Cancel();
    });
    busy.Batch(&cancellation).IgnoreError();
    soon.join();
  }
}

}  // namespace
}  // namespace hmann::server
