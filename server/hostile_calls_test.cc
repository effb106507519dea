// Calls that other clients and proxies really send, and that once ended in the wrong way:
// compressed, with a far deadline, with too much metadata, with a name of many bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "hmann/collection.h"
#include "hmann/tuned_table.h"
#include "hmann/v1/search.grpc.pb.h"
#include "httplib.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

v1::SearchRequest FirstSample() {
  v1::SearchRequest request;
  request.set_index("sift");
  const auto query = SampleQueries(0, 1);
  request.mutable_query()->set_raw(query.data(), query.size());
  request.mutable_options()->set_k(10);
  return request;
}

class HostileCallTest : public testing::Test {
 protected:
  HostileCallTest() : served_(Options()), stub_(v1::Search::NewStub(Channel())) {}

  static ServerOptions Options() {
    ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}});
    options.http = "127.0.0.1:0";
    options.connections.min_ping = 10ms;
    return options;
  }
  std::shared_ptr<grpc::Channel> Channel() { return ChannelTo(served_.server->address()); }
  grpc::Status Search(grpc::ClientContext& context, const v1::SearchRequest& request) {
    v1::SearchResponse response;
    return stub_->Search(&context, request, &response);
  }
  grpc::Status Search() {
    grpc::ClientContext context;
    return Search(context, FirstSample());
  }
  std::string Metrics() {
    return httplib::Client(absl::StrCat("http://", served_.server->http_address()))
        .Get("/metrics")
        ->body;
  }

  Served served_;
  const std::unique_ptr<v1::Search::Stub> stub_;
};

TEST_F(HostileCallTest, ACompressedMessageIsRefusedBeforeItIsInflated) {
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context, of_get, of_list;
    for (grpc::ClientContext* one : {&context, &of_get, &of_list})
      one->set_compression_algorithm(algorithm);
    v1::SearchRequest request = FirstSample();
    request.mutable_query()->set_raw(std::string(1 << 20, '\0'));
    EXPECT_EQ(Search(context, request).error_code(), grpc::StatusCode::UNIMPLEMENTED);
    v1::GetRequest labels;
    labels.set_index("sift");
    for (int i = 0; i < 1000; ++i) labels.add_labels(0);
    v1::GetResponse vectors;
    EXPECT_EQ(stub_->Get(&of_get, labels, &vectors).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  EXPECT_TRUE(Search().ok());
}

TEST_F(HostileCallTest, ADeadlineInTheYear9999IsFarAway) {
  grpc::ClientContext context;
  context.set_deadline(gpr_timespec{253370764800, 0, GPR_CLOCK_REALTIME});
  EXPECT_TRUE(Search(context, FirstSample()).ok());
  grpc::ClientContext of_stream;
  of_stream.set_deadline(gpr_timespec{253370764800, 0, GPR_CLOCK_REALTIME});
  const auto stream = stub_->SearchStream(&of_stream);
  v1::SearchStreamRequest message;
  *message.mutable_search() = FirstSample();
  ASSERT_TRUE(stream->Write(message));
  v1::SearchStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(answer.has_answer()) << answer.ShortDebugString();
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(HostileCallTest, TooMuchMetadataFailsItsOwnCallOnly) {
  grpc::ClientContext of_stream;
  const auto stream = stub_->SearchStream(&of_stream);
  v1::SearchStreamRequest message;
  *message.mutable_search() = FirstSample();
  v1::SearchStreamResponse answer;
  ASSERT_TRUE(stream->Write(message) && stream->Read(&answer));
  for (const std::size_t bytes : {17 << 10, 50 << 10}) {
    grpc::ClientContext context;
    context.AddMetadata("x-trace", std::string(bytes, 'x'));
    const grpc::Status status = Search(context, FirstSample());
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("metadata"));
    EXPECT_TRUE(stream->Write(message) && stream->Read(&answer)) << "another call";
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(HostileCallTest, AFailureThatStaysIsNotTriedAgain) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetServiceConfigJSON(R"({"methodConfig": [{"name": [{}], "retryPolicy": {
      "maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
      "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]})");
  const auto stub = v1::Search::NewStub(grpc::CreateCustomChannel(
      served_.server->address(), grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext search, describe, get;
  for (grpc::ClientContext* one : {&search, &describe, &get})
    one->AddMetadata("x-trace", std::string(17 << 10, 'x'));
  v1::SearchResponse answer;
  v1::DescribeResponse described;
  v1::GetResponse vectors;
  for (const grpc::Status& status :
       {stub->Search(&search, FirstSample(), &answer), stub->Describe(&describe, {}, &described),
        stub->Get(&get, {}, &vectors)})
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  const std::string text = Metrics();
  for (const char* method : {"Search", "Describe", "Get"})
    EXPECT_THAT(text, HasSubstr(absl::StrCat("method=\"", method,
                                             "\",reason=\"METADATA_TOO_LARGE\"} 1\n")));
}

TEST_F(HostileCallTest, ANameIsCutBetweenCharacters) {
  for (const char* character : {"é", "€", "𝄞", "x"}) {
    std::string name = "a";
    for (int i = 0; i < 4000; ++i) name += character;
    v1::SearchRequest request = FirstSample();
    request.set_index(name);
    grpc::ClientContext context;
    const grpc::Status status = Search(context, request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    google::rpc::Status details;
    EXPECT_TRUE(details.ParseFromString(status.error_details()));
    EXPECT_EQ(details.details_size(), 1);
    EXPECT_EQ(details.message(), status.error_message());
    EXPECT_LT(status.error_message().size(), 200u);
  }
}

TEST_F(HostileCallTest, ARequestThatIsTooLargeIsAMistakeAndNoAttack) {
  const std::string bytes(12 << 20, 'x');
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext batch, get, of_stream;
    v1::SearchRequest one = FirstSample();
    one.mutable_query()->set_raw(bytes);
    v1::SearchBatchRequest many;
    many.mutable_queries()->set_raw(bytes);
    v1::SearchBatchResponse answers;
    v1::GetRequest labels;
    labels.mutable_labels()->Resize(4 << 20, 1000);
    v1::GetResponse vectors;
    const auto stream = stub_->SearchStream(&of_stream);
    v1::SearchStreamRequest message;
    *message.mutable_search() = one;
    stream->Write(message);
    for (const grpc::Status& status : {stream->Finish(), stub_->SearchBatch(&batch, many, &answers),
                                       stub_->Get(&get, labels, &vectors)}) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
          << status.error_message();
    }
  }
  grpc::ClientContext at_once;
  at_once.set_deadline(std::chrono::system_clock::now() + 2s);
  EXPECT_TRUE(Search(at_once, FirstSample()).ok()) << "on the same connection";
  EXPECT_THAT(Metrics(), HasSubstr("hmann_connections_accepted_total 1\n"));
}

TEST_F(HostileCallTest, ASearchThatIsTooLargeFailsAlone) {
  for (const std::size_t bytes : {(4 << 20) + 100, 5 << 20, 12 << 20, 20 << 20, 60 << 20}) {
    v1::SearchRequest large = FirstSample();
    large.mutable_query()->set_raw(std::string(bytes, 'x'));
    grpc::ClientContext context;
    const grpc::Status status = Search(context, large);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
        << bytes << ": " << status.error_message();
    EXPECT_THAT(status.error_details(), HasSubstr("REQUEST_TOO_LARGE")) << bytes;
    EXPECT_TRUE(Search().ok()) << "on the same connection";
  }
  EXPECT_THAT(Metrics(), HasSubstr("hmann_connections_accepted_total 1\n"));
}

TEST_F(HostileCallTest, ALargeSearchThatIsAllowedIsAnsweredOnEachConnection) {
  v1::SearchRequest large = FirstSample();
  large.mutable_options()->set_filter("tag in $x");
  auto& texts = (*large.mutable_options()->mutable_filter_arguments())["x"];
  for (int i = 0; i < 65'000; ++i)
    texts.add_texts(absl::StrCat("a text of some forty bytes, number ", i));
  for (int i = 0; i < 20; ++i) {
    const auto stub = v1::Search::NewStub(Channel());
    grpc::ClientContext context;
    v1::SearchResponse response;
    const grpc::Status status = stub->Search(&context, large, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << status.error_message();
    EXPECT_THAT(status.error_details(), HasSubstr("NO_ATTRIBUTES"));
  }
}

TEST_F(HostileCallTest, TheHealthOfANameThatCannotBeIsNotFound) {
  const auto stub = grpc::health::v1::Health::NewStub(Channel());
  for (const std::string& name : {std::string(201, 'x'), std::string(9000, 'x'),
                                  std::string("\xff"), std::string("hmann.index.none")}) {
    grpc::ClientContext check;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(name);
    grpc::health::v1::HealthCheckResponse state;
    EXPECT_EQ(stub->Check(&check, request, &state).error_code(), grpc::StatusCode::NOT_FOUND)
        << name.size();
  }
  grpc::ClientContext watch, empty;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(9000, 'x'));
  grpc::health::v1::HealthCheckResponse state;
  const auto watched = stub->Watch(&watch, request);
  EXPECT_FALSE(watched->Read(&state));
  EXPECT_EQ(watched->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(stub->Check(&empty, {}, &state).ok());
}

TEST_F(HostileCallTest, ASearchThatIsTooLargeBarsNoAddress) {
  v1::SearchRequest large = FirstSample();
  large.mutable_query()->set_raw(std::string(12 << 20, 'x'));
  // A barred address would wait for longer than the next search may.
  int answered = 0;
  for (int i = 0; i < 5; ++i) {
    grpc::ClientContext context, next;
    EXPECT_EQ(Search(context, large).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    next.set_deadline(std::chrono::system_clock::now() + 200ms);
    const auto other = v1::Search::NewStub(Channel());
    v1::SearchResponse response;
    answered += other->Search(&next, FirstSample(), &response).ok() ? 1 : 0;
  }
  EXPECT_GT(answered, 0);
}

/// The end of a call that has this much metadata and no request.
grpc::Status CallWithoutRequest(const std::shared_ptr<grpc::Channel>& channel, const char* method,
                                std::size_t metadata) {
  grpc::GenericStub generic(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.AddMetadata("x-trace", std::string(metadata, 'x'));
  const auto call =
      generic.PrepareCall(&context, absl::StrCat("/hmann.v1.Search/", method), &queue);
  grpc::Status status;
  int tag = 0;
  void* got = nullptr;
  bool ok = false;
  call->StartCall(&tag);
  EXPECT_TRUE(queue.Next(&got, &ok));
  call->WritesDone(&tag);
  EXPECT_TRUE(queue.Next(&got, &ok));
  call->Finish(&status, &tag);
  EXPECT_TRUE(queue.Next(&got, &ok) && ok);
  return status;
}

TEST_F(HostileCallTest, AUnaryCallWithoutItsRequestIsToldSo) {
  const grpc::Status status = CallWithoutRequest(Channel(), "Search", 0);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_THAT(Metrics(), HasSubstr(R"(code="INVALID_ARGUMENT",index="",method="Search")"));
}

TEST_F(HostileCallTest, PingsWithoutACallAreNoAbuse) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 50);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const auto channel = grpc::CreateCustomChannel(served_.server->address(),
                                                 grpc::InsecureChannelCredentials(), arguments);
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + 5s));
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(50ms);
    ASSERT_EQ(channel->GetState(false), GRPC_CHANNEL_READY) << i;
  }
}

TEST_F(HostileCallTest, EveryMethodAndEveryFailureIsCountedByIndex) {
  v1::SearchRequest request = FirstSample();
  request.mutable_options()->set_k(1 << 20);
  grpc::ClientContext bad, describe, list;
  EXPECT_EQ(Search(bad, request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::DescribeRequest of;
  of.set_index("sift");
  v1::DescribeResponse described;
  EXPECT_TRUE(stub_->Describe(&describe, of, &described).ok());
  v1::ListResponse listed;
  EXPECT_TRUE(stub_->List(&list, {}, &listed).ok());
  const std::string text = Metrics();
  for (const char* line :
       {R"(hmann_failed_requests_total{code="INVALID_ARGUMENT",index="sift",method="Search",)",
        R"(hmann_request_seconds_count{index="sift",method="Describe"} 1)",
        R"(hmann_request_seconds_count{index="",method="List"} 1)"})
    EXPECT_THAT(text, HasSubstr(line));
}

/// A stream and a watch of the health that have had an answer, on a connection of their
/// own.
class IdleStreams {
 public:
  explicit IdleStreams(const std::string& address)
      : channel_(ChannelTo(address)),
        stub_(v1::Search::NewStub(channel_)),
        stream_(stub_->SearchStream(&of_stream_)),
        health_(grpc::health::v1::Health::NewStub(channel_)),
        watch_(health_->Watch(&of_watch_, {})) {
    grpc::health::v1::HealthCheckResponse state;
    EXPECT_TRUE(watch_->Read(&state));
    EXPECT_TRUE(Answers());
  }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  bool Answers() {
    v1::SearchStreamRequest message;
    *message.mutable_search() = FirstSample();
    v1::SearchStreamResponse answer;
    return stream_->Write(message) && stream_->Read(&answer) && answer.has_answer();
  }
  grpc::Status EndOfStream() {
    stream_->WritesDone();
    return stream_->Finish();
  }

 private:
  grpc::ClientContext of_stream_, of_watch_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Search::Stub> stub_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::SearchStreamRequest, v1::SearchStreamResponse>>
      stream_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  const std::unique_ptr<grpc::ClientReader<grpc::health::v1::HealthCheckResponse>> watch_;
};

TEST(IdleStreamTest, StreamsMayStayIdleWhateverEndsUnreadOnTheirConnection) {
  ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}});
  options.connections.request_timeout = options.connections.idle_timeout = 600ms;
  Served served(options);
  constexpr std::size_t kTooMuch = 17 << 10;
  constexpr std::pair<const char*, std::size_t> kUnread[] = {
      {"Get", kTooMuch},   {"SearchBatch", 0}, {"SearchStream", kTooMuch},
      {"SearchStream", 0}, {"Search", 0},      {"UnknownMethod", 0}};
  std::vector<std::unique_ptr<IdleStreams>> idle;
  for (const auto& [method, metadata] : kUnread) {
    idle.push_back(std::make_unique<IdleStreams>(served.server->address()));
    for (int i = 0; i < 3; ++i) CallWithoutRequest(idle.back()->channel(), method, metadata);
  }
  idle.push_back(std::make_unique<IdleStreams>(served.server->address()));
  std::this_thread::sleep_for(1800ms);  // the guard looks at a connection each 250 ms
  for (std::size_t i = 0; i < idle.size(); ++i) {
    const char* method = i < std::size(kUnread) ? kUnread[i].first : "none";
    EXPECT_TRUE(idle[i]->Answers()) << method;
    EXPECT_TRUE(idle[i]->EndOfStream().ok()) << method;
  }
}

/// Serves a new collection as "live".
class LiveTest : public testing::Test {
 protected:
  client::Client& Serve(DType dtype, std::uint32_t dim) {
    CreateCollection create;
    create.dtype = dtype;
    create.dim = dim;
    EXPECT_TRUE(Collection::Create(folder_ / "c.live", create).ok());
    served_ = std::make_unique<Served>(LoopbackOptions({{"live", folder_ / "c.live"}}));
    return *served_->client;
  }
  static void ExpectField(const absl::Status& found, const std::string& field) {
    EXPECT_EQ(found.code(), absl::StatusCode::kInvalidArgument) << found;
    EXPECT_THAT(std::string(found.message()), HasSubstr(absl::StrCat("[field ", field, "]")));
  }

  const TempFolder folder_;
  std::unique_ptr<Served> served_;
};

/// What one client writes costs the others nothing.
TEST_F(LiveTest, DeepOrWideAttributesAreRefused) {
  client::Client& client = Serve(DType::kU8, 2);
  const std::vector<std::uint64_t> one = {1};
  const std::vector<std::byte> vector(2, std::byte{1});
  const auto raw = client::Vectors::Raw(vector);
  ASSERT_TRUE(client.Put("live", {.labels = one}, raw).ok());
  std::string wide = "{";
  for (int i = 0; i < 200'000; ++i) absl::StrAppend(&wide, i == 0 ? "" : ",", "\"f", i, "\":1");
  const std::string lists = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text : {R"({"a":)" + lists + "}", lists, wide + "}", wide}) {
    const std::vector<std::string> attributes = {text};
    for (const auto& refused : {client.Put("live", {.labels = one}, raw, attributes),
                                client.Update("live", {.labels = one}, attributes)}) {
      EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << refused.status();
      EXPECT_THAT(std::string(refused.status().message()), HasSubstr("row 0 (label 1)"));
    }
  }
  const auto found = client.Search("live", raw, {.k = 1});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->ids, one);
  const auto filtered = client.Search("live", raw, {.k = 1}, {.filter = "f1 = 1"});
  EXPECT_THAT(std::string(filtered.status().message()),
              HasSubstr("there is no field f1, since no vector has had attributes"));
}

TEST_F(LiveTest, AVectorThatCannotBeKeptCarriesItsField) {
  client::Client& client = Serve(DType::kF32, 2);
  const std::vector<std::uint64_t> labels = {1, 2};
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinite = std::numeric_limits<float>::infinity();
  for (const float wrong : {nan, infinite, -infinite}) {
    const std::vector<float> vectors = {1, 2, 3, wrong};
    ExpectField(client.Put("live", {.labels = labels}, client::Vectors::Floats(vectors)).status(),
                "vectors[1]");
  }
}

TEST_F(LiveTest, RawVectorsOfAnotherTypeAreRefused) {
  constexpr std::size_t kDim = 8, kRead = 4;
  client::Client& client = Serve(DType::kU8, kDim);
  const std::vector<std::uint64_t> labels = {1, 2, 3, 4};
  const std::vector<float> one(kDim, 1);  // the bytes of four vectors of u8
  const auto raw = [&](std::size_t count) {
    return client::Vectors::Raw(std::as_bytes(std::span(one)), count);
  };
  ExpectField(client.Put("live", {.labels = labels}, raw(1)).status(), "vectors.count");
  ASSERT_TRUE(client.Put("live", {.labels = labels}, raw(kRead)).ok());
  for (const std::size_t count : {0, 1, 5})
    ExpectField(client.SearchBatch("live", raw(count), {.k = 1}).status(), "queries.count");
  EXPECT_TRUE(client.SearchBatch("live", raw(kRead), {.k = 1}).ok());
}

/// A table that is tuned for k = 10.
void WriteTable(const std::string& index) {
  TunedSetting setting;
  setting.params.k = 10;
  setting.params.ef_l1 = 4;
  setting.params.ef_l0 = 80;
  setting.recall = 0.99;
  setting.recall_low = 0.98;
  setting.mean_us = 80;
  TunedTable table{.content_hash = ReadInfo(index)->content_hash, .entries = {}};
  table.Put({.placement = {"dram", "mapped", "none"},
             .k = 10,
             .queries = 100,
             .origin = "test",
             .cpu = "",
             .simd = "",
             .settings = {setting}});
  ASSERT_TRUE(WriteTunedTable(index, table).ok());
}

TEST(TunedWhileServedTest, ANewTableIsReadWithoutARestartAndABadOneIsNot) {
  const TempFolder folder;
  const std::string path = folder / "index.hmann";
  std::filesystem::copy_file(SampleIndex(), path);
  Served served(LoopbackOptions({{"sift", path}}));
  const auto search = [&] {
    return served.client
        ->Search("sift", client::Vectors::Raw(SampleQueries(0, 1)), {.k = 10, .latency = 1ms})
        .status();
  };
  EXPECT_EQ(Reason(search()), "NOT_TUNED");
  WriteTable(path);
  while (!search().ok()) std::this_thread::sleep_for(20ms);  // or the test runs out of time
  folder.Write("index.hmann.tuned", "{");
  served.server->Reload();
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(search(), absl::OkStatus()) << "the table that was read before";
}

}  // namespace
}  // namespace hmann::server
