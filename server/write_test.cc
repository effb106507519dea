// Changes of a collection through a real server and a real client: what is written is
// found, what is wrong is refused by name, and what is sent again happens once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"
#include "grpcpp/grpcpp.h"
#include "hmann/collection.h"
#include "hmann/v1/write.grpc.pb.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint32_t kWriteDim = 8;

/// A vector that is nearest to others of near labels.
std::vector<std::uint8_t> Made(std::uint64_t label) {
  return std::vector<std::uint8_t>(kWriteDim, static_cast<std::uint8_t>(label));
}
client::Vectors Raw(const std::vector<std::uint8_t>& bytes) {
  return client::Vectors::Raw(std::as_bytes(std::span(bytes)));
}

class WriteTest : public testing::Test {
 protected:
  void SetUp() override {
    CreateCollection create;
    create.dtype = DType::kU8;
    create.dim = kWriteDim;
    create.build.m = 4;
    ASSERT_TRUE(Collection::Create(live_, create).ok());
    Serve();
  }
  void Serve() {
    served_.reset();
    ServerOptions options = LoopbackOptions({{"live", live_}, {"fixed", CosineIndex()}});
    options.limits.max_batch = 300;
    options.tokens = tokens_;
    options.indexes[0].delta_bytes = delta_bytes_;
    served_ = std::make_unique<Served>(options);
  }
  client::Client& client() { return *served_->client; }

  /// Serves to clients with the token "operator" alone. Its file is written once, since
  /// many threads connect.
  void ServeOperators() {
    operator_file_ = folder_.Write("operator", "operator");
    // The SHA-256 of "operator".
    tokens_ = folder_.Write(
        "tokens", "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23 admin\n");
    Serve();
  }
  client::Client Operator() {
    return *client::Client::Connect(
        served_->server->address(),
        {.own_connection = true, .retry = false, .token_file = operator_file_});
  }

  absl::StatusOr<client::Written> Put(const std::vector<std::uint64_t>& labels,
                                      const client::CallOptions& call = {}) {
    std::vector<std::uint8_t> vectors;
    for (const std::uint64_t label : labels) {
      const std::vector<std::uint8_t> one = Made(label);
      vectors.insert(vectors.end(), one.begin(), one.end());
    }
    return client().Put("live", {.labels = labels}, Raw(vectors), {}, call);
  }
  absl::StatusOr<client::Answer> Nearest(std::uint64_t label,
                                         const std::optional<std::string>& filter = {}) {
    return client().Search("live", Raw(Made(label)), {.k = 3}, {.filter = filter});
  }

  TempFolder folder_;
  const std::string live_ = folder_ / "c.live";
  std::string tokens_, operator_file_;
  std::uint64_t delta_bytes_ = 0;
  std::unique_ptr<Served> served_;
};

TEST_F(WriteTest, WhatIsWrittenIsFoundAndWhatIsDeletedIsNot) {
  EXPECT_THAT(Nearest(5)->ids, ElementsAre());
  const auto put = Put({5, 6, 9, 40});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->rows, 4u);
  auto found = Nearest(5);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->ids, ElementsAre(5, 6, 9));
  EXPECT_EQ(found->sequence, put->sequence);
  EXPECT_EQ(client().Describe("live")->n, 4u);

  const std::vector<std::uint64_t> gone = {6, 7};
  const auto deleted = client().Delete("live", {.labels = gone});
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->rows, 1u);
  EXPECT_EQ(deleted->sequence, put->sequence + 1);
  EXPECT_THAT(Nearest(5)->ids, ElementsAre(5, 9, 40));
  EXPECT_EQ(client().Get("live", gone).status().code(), StatusCode::kNotFound);

  const std::vector<std::uint64_t> some = {5, 9};
  const std::vector<std::string> years = {R"({"year":2001})", R"({"year":2009})"};
  ASSERT_TRUE(client().Update("live", {.labels = some}, years).ok());
  found = Nearest(5, "year > 2005");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->ids, ElementsAre(9));
  EXPECT_EQ(found->matches, 1u);

  const auto compacted = client().Compact("live");
  ASSERT_TRUE(compacted.ok()) << compacted.status();
  EXPECT_EQ(compacted->rows, 3u);
  EXPECT_THAT(Nearest(5)->ids, ElementsAre(5, 9, 40));
  EXPECT_THAT(Nearest(5, "year > 2005")->ids, ElementsAre(9));
  const auto vectors = client().Get("live", some);
  ASSERT_TRUE(vectors.ok()) << vectors.status();
  EXPECT_EQ((*vectors)[0], std::byte{5});

  ASSERT_TRUE(client().DeleteMatching("live", false, {.filter = "year == 2001"}).ok());
  EXPECT_THAT(Nearest(5)->ids, ElementsAre(9, 40));
  ASSERT_TRUE(client().DeleteMatching("live", true, {}).ok());
  EXPECT_THAT(Nearest(5)->ids, ElementsAre());
}

TEST_F(WriteTest, LabelsMayBeStrings) {
  std::vector<std::uint8_t> vectors = Made(1);
  vectors.insert(vectors.end(), kWriteDim, 3);
  const std::vector<std::string> names = {"cat.jpg", "dog"};
  ASSERT_TRUE(client().Put("live", {.names = names}, Raw(vectors)).ok());
  ASSERT_TRUE(Put({9}).ok());
  const auto found = Nearest(1);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->names, ElementsAre("cat.jpg", "dog", ""));
  EXPECT_EQ(found->ids[2], 9u);
  const auto batch = client().SearchBatch(
      "live", client::Vectors::Raw(std::as_bytes(std::span(vectors)), 2), {.k = 1});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(batch->names, ElementsAre("cat.jpg", "dog"));
  ASSERT_TRUE(client().Delete("live", {.names = std::span(names).first(1)}).ok());
  EXPECT_THAT(Nearest(1)->names, ElementsAre("dog", ""));
}

TEST_F(WriteTest, ItIsThereAfterTheServerEnds) {
  ASSERT_TRUE(Put({1, 2, 3}).ok());
  ASSERT_TRUE(client().Compact("live").ok());
  ASSERT_TRUE(Put({4}).ok());
  Serve();
  EXPECT_THAT(Nearest(4)->ids, ElementsAre(4, 3, 2));
}

TEST_F(WriteTest, StreamsAndBatchesSeeOneMomentEach) {
  ASSERT_TRUE(Put({1, 2, 3}).ok());
  client::SearchStream stream = client().OpenStream("live", {.k = 1});
  const std::vector<std::uint8_t> query = Made(9);
  const auto ask = [&] {
    EXPECT_TRUE(stream.Send(1, Raw(query)).ok());
    const auto answer = stream.Receive();
    EXPECT_TRUE(answer.ok() && answer->has_value() && (*answer)->answer.ok());
    return (*answer)->answer->ids;
  };
  EXPECT_THAT(ask(), ElementsAre(3));
  ASSERT_TRUE(Put({8}).ok());
  EXPECT_THAT(ask(), ElementsAre(8));
  std::vector<std::uint8_t> queries = Made(1);
  queries.insert(queries.end(), query.begin(), query.end());
  const auto batch = client().SearchBatch(
      "live", client::Vectors::Raw(std::as_bytes(std::span(queries)), queries.size() / kWriteDim),
      {.k = 2});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(batch->ids, ElementsAre(1, 2, 8, 3));
  EXPECT_EQ(batch->sequence, 2u);
}

TEST_F(WriteTest, WhatIsSentAgainHappensOnce) {
  const client::CallOptions once{.operation = "a"};
  const auto first = Put({5, 6}, once), again = Put({5, 6}, once);
  ASSERT_TRUE(first.ok() && again.ok()) << again.status();
  EXPECT_EQ(again->sequence, first->sequence);
  EXPECT_EQ(again->rows, 2u);
  const auto other = Put({7}, once);
  EXPECT_EQ(other.status().code(), StatusCode::kAlreadyExists) << other.status();
  Serve();
  EXPECT_EQ(Put({5, 6}, once)->sequence, first->sequence);
}

TEST_F(WriteTest, WhatIsWrongIsNamed) {
  const std::vector<std::uint64_t> one = {1}, two = {1, 2};
  const std::vector<std::string> names = {"x"};
  const std::vector<std::uint8_t> vector = Made(1), cut(kWriteDim - 1);
  const auto expect = [](const absl::StatusOr<client::Written>& found, StatusCode code,
                         const auto& message) {
    EXPECT_EQ(found.status().code(), code) << found.status();
    EXPECT_THAT(std::string(found.status().message()), message);
  };
  expect(client().Put("fixed", {.labels = one}, Raw(vector)), StatusCode::kFailedPrecondition,
         AllOf(HasSubstr("NOT_A_COLLECTION"), HasSubstr("hmann create --from")));
  expect(client().Put("none", {.labels = one}, Raw(vector)), StatusCode::kNotFound,
         HasSubstr("none"));
  expect(client().Put("live", {.labels = one}, Raw(cut)), StatusCode::kInvalidArgument,
         HasSubstr("vectors: expected a multiple of 8"));
  expect(client().Put("live", {.labels = two}, Raw(vector)), StatusCode::kInvalidArgument,
         HasSubstr("vectors: expected 2, as there are labels, found 1"));
  expect(client().Put("live", {.labels = one, .names = names}, Raw(vector)),
         StatusCode::kInvalidArgument, HasSubstr("vectors: expected 2"));
  expect(client().Put("live", {}, Raw(vector)), StatusCode::kInvalidArgument,
         HasSubstr("labels: expected one or more"));
  expect(Put({std::numeric_limits<std::uint64_t>::max()}), StatusCode::kInvalidArgument,
         HasSubstr("no label"));
  expect(Put(std::vector<std::uint64_t>(301, 1)), StatusCode::kInvalidArgument,
         HasSubstr("at most 300"));
  expect(client().Put("live", {.labels = one}, Raw(vector), std::vector<std::string>{"{"}),
         StatusCode::kInvalidArgument, HasSubstr("label 1"));
  const std::vector<std::string> empty = {"{}"};
  expect(client().Update("live", {.labels = one}, empty), StatusCode::kNotFound,
         HasSubstr("label 1"));
  ASSERT_TRUE(Put({1, 2}).ok());
  expect(client().DeleteMatching("live", false, {.filter = "not (year > 0)"}),
         StatusCode::kInvalidArgument, HasSubstr("year"));
  expect(client().DeleteMatching("live", false, {}), StatusCode::kInvalidArgument,
         HasSubstr("labels: expected one or more"));
  expect(Put({1}, {.operation = std::string(65, 'x')}), StatusCode::kInvalidArgument,
         HasSubstr("at most 64"));
  EXPECT_EQ(client().Describe("live")->n, 2u);
  EXPECT_EQ(client().Swap("live").status().code(), StatusCode::kPermissionDenied);
}

TEST_F(WriteTest, WhatIsWrongCarriesTheFieldOfItsRow) {
  const std::vector<std::uint64_t> two = {1, std::numeric_limits<std::uint64_t>::max()}, one = {7};
  const std::vector<std::string> long_name = {std::string(1025, 'x')}, bad = {"{"}, good = {"{}"};
  const auto field = [](const absl::Status& found, const std::string& name) {
    EXPECT_EQ(found.code(), StatusCode::kInvalidArgument) << found;
    EXPECT_THAT(std::string(found.message()), HasSubstr(absl::StrCat("[field ", name, "]")));
  };
  const auto resource = [](const absl::Status& found, StatusCode code, const std::string& name) {
    EXPECT_EQ(found.code(), code) << found;
    EXPECT_THAT(std::string(found.message()), HasSubstr(absl::StrCat("[", name, "]")));
  };
  field(Put(two).status(), "labels[1]");
  field(client().Put("live", {.names = long_name}, Raw(Made(1))).status(), "names[0]");
  field(client().Put("live", {.labels = one}, Raw(Made(1)), bad).status(), "attributes[0]");
  field(Put(one, {.operation = std::string(65, 'x')}).status(), "operation");
  resource(client().Update("live", {.labels = one}, good).status(), StatusCode::kNotFound,
           "label 7");
  const std::vector<std::string> cat = {"cat"};
  resource(client().Update("live", {.names = cat}, good).status(), StatusCode::kNotFound,
           "label cat");
  ASSERT_TRUE(Put(one, {.operation = "o"}).ok());
  resource(Put({8}, {.operation = "o"}).status(), StatusCode::kAlreadyExists, "operation 6f");

  client::WriteStream stream = client().OpenWrites("live");
  ASSERT_TRUE(stream.Put(1, {.labels = two}, Raw(std::vector<std::uint8_t>(2 * kWriteDim))).ok());
  ASSERT_TRUE(stream.Update(2, {.labels = std::span(two).first(1)}, good).ok());
  ASSERT_TRUE(stream.DoneSending().ok());
  auto failed = stream.Receive();
  ASSERT_TRUE(failed.ok() && failed->has_value());
  field((*failed)->written.status(), "labels[1]");
  failed = stream.Receive();
  ASSERT_TRUE(failed.ok() && failed->has_value());
  resource((*failed)->written.status(), StatusCode::kNotFound, "label 1");
}

TEST_F(WriteTest, ATokenThatReadsDoesNotWrite) {
  // The SHA-256 of "operator" and "reader".
  tokens_ = folder_.Write(
      "tokens",
      "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23 write indexes=live\n"
      "3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30 read\n");
  Serve();
  const auto with = [&](const std::string& token) {
    return *client::Client::Connect(
        served_->server->address(),
        {.own_connection = true, .retry = false, .token_file = folder_.Write(token, token)});
  };
  const std::vector<std::uint64_t> labels = {1};
  const std::vector<std::uint8_t> vector = Made(1);
  client::Client reader = with("reader"), writer = with("operator");
  const auto refused = reader.Put("live", {.labels = labels}, Raw(vector));
  EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("write"));
  EXPECT_TRUE(writer.Put("live", {.labels = labels}, Raw(vector)).ok());
  EXPECT_EQ(writer.Put("fixed", {.labels = labels}, Raw(vector)).status().code(),
            StatusCode::kPermissionDenied);
  EXPECT_THAT(reader.Search("live", Raw(vector), {.k = 1})->ids, ElementsAre(1));
  EXPECT_THAT(writer.Search("live", Raw(vector), {.k = 1})->ids, ElementsAre(1));
}

TEST_F(WriteTest, AnotherServerFollows) {
  ASSERT_TRUE(Put({1, 2}).ok());
  IndexSpec spec{"live", live_};
  spec.follow = true;
  const Served follower(LoopbackOptions({spec}));
  const auto sees = [&](std::uint64_t sequence) {
    for (int tries = 0; tries < 200; ++tries) {
      const auto found = follower.client->Search("live", Raw(Made(9)), {.k = 1});
      EXPECT_TRUE(found.ok()) << found.status();
      if (!found.ok()) break;
      if (found->sequence >= sequence) return found->ids;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return std::vector<std::uint64_t>{};
  };
  EXPECT_THAT(sees(1), ElementsAre(2));
  ASSERT_TRUE(Put({8}).ok());
  EXPECT_THAT(sees(2), ElementsAre(8));
  ASSERT_TRUE(client().Compact("live").ok());
  const auto put = Put({9});
  EXPECT_THAT(sees(put->sequence), ElementsAre(9));
  const std::vector<std::uint64_t> labels = {9};
  EXPECT_EQ(follower.client->Delete("live", {.labels = labels}).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(follower.client->Describe("live")->collection->behind_seconds.has_value());
  served_.reset();  // the writer ends
  EXPECT_THAT(sees(put->sequence), ElementsAre(9));
}

/// A WriteStream call as a program without the client library makes it.
class RawStream {
 public:
  explicit RawStream(const std::string& address)
      : stub_(v1::Write::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        stream_(stub_->WriteStream(&context_)) {}

  void Put(std::uint64_t id, const std::string& index, const std::vector<std::uint64_t>& labels) {
    v1::WriteStreamRequest request;
    request.set_id(id);
    request.mutable_put()->set_index(index);
    for (const std::uint64_t label : labels) {
      const std::vector<std::uint8_t> made = Made(label);
      request.mutable_put()->add_labels(label);
      request.mutable_put()->mutable_vectors()->mutable_raw()->append(made.begin(), made.end());
    }
    stream_->Write(request);
  }
  void Delete(std::uint64_t id, std::uint64_t label) {
    v1::WriteStreamRequest request;
    request.set_id(id);
    request.mutable_delete_()->add_labels(label);
    stream_->Write(request);
  }
  void Empty() { stream_->Write(v1::WriteStreamRequest()); }
  /// "ID: ROWS at SEQUENCE", or "ID: CODE"; empty after the last.
  std::string Answer() {
    v1::WriteStreamResponse response;
    if (!stream_->Read(&response)) return {};
    return response.has_written() ? absl::StrCat(response.id(), ": ", response.written().rows(),
                                                 " at ", response.written().sequence())
                                  : absl::StrCat(response.id(), ": ", response.failure().code());
  }
  void DoneWriting() { stream_->WritesDone(); }
  grpc::Status Finish() { return stream_->Finish(); }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::Write::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WriteStreamRequest, v1::WriteStreamResponse>>
      stream_;
};

TEST_F(WriteTest, AStreamWritesInItsOrder) {
  RawStream stream(served_->server->address());
  stream.Put(7, "live", {1, 2, 3});
  stream.Delete(8, 2);
  stream.Put(9, "", {2});
  stream.Put(10, "", std::vector<std::uint64_t>(301, 1));
  stream.Delete(11, 3);
  stream.Put(12, "fixed", {1});
  EXPECT_EQ(stream.Answer(), "7: 3 at 1");
  EXPECT_EQ(stream.Answer(), "8: 1 at 2");
  EXPECT_EQ(stream.Answer(), "9: 1 at 3");
  EXPECT_EQ(stream.Answer(), absl::StrCat("10: ", StatusCode::kInvalidArgument));
  EXPECT_EQ(stream.Answer(), "11: 1 at 4");
  EXPECT_EQ(stream.Answer(), absl::StrCat("12: ", StatusCode::kFailedPrecondition));
  stream.DoneWriting();
  EXPECT_EQ(stream.Answer(), "");
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_THAT(Nearest(2)->ids, ElementsAre(2, 1));

  RawStream empty(served_->server->address());
  empty.Empty();
  EXPECT_EQ(empty.Answer(), "");
  EXPECT_EQ(empty.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  RawStream left(served_->server->address());  // one that says nothing, and goes
  left.Put(1, "live", {70});
  EXPECT_EQ(left.Answer(), "1: 1 at 5");
  left.Cancel();
  EXPECT_EQ(left.Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Put({80}).ok());
}

TEST_F(WriteTest, AStreamWaitsForRoom) {
  delta_bytes_ = 2 << 20;
  Serve();
  std::uint64_t next = 0;
  const auto more = [&next] {
    std::vector<std::uint64_t> labels(300);
    for (std::uint64_t& label : labels) label = next++;
    return labels;
  };
  absl::StatusOr<client::Written> put;
  while ((put = Put(more())).ok()) continue;
  EXPECT_EQ(put.status().code(), StatusCode::kResourceExhausted) << put.status();
  EXPECT_THAT(std::string(put.status().message()),
              AllOf(HasSubstr("COLLECTION_FULL"), HasSubstr("retry after")));
  const std::uint64_t before = client().Describe("live")->collection->sequence;
  RawStream stream(served_->server->address()), second(served_->server->address());
  stream.Put(1, "live", more());
  second.Put(1, "live", more());
  ASSERT_TRUE(client().Compact("live", {.deadline = std::chrono::minutes(1)}).ok());
  EXPECT_THAT(stream.Answer(), HasSubstr("1: 300 at "));
  EXPECT_THAT(second.Answer(), HasSubstr("1: 300 at "));
  EXPECT_EQ(client().Describe("live")->collection->sequence, before + 2);
}

TEST_F(WriteTest, TheClientStreams) {
  const std::vector<std::uint64_t> rows = {1, 2}, missing = {9}, second = {2};
  const std::vector<std::string> year = {R"({"year":7})"};
  std::vector<std::uint8_t> vectors = Made(1);
  vectors.resize(std::size_t{2} * kWriteDim, 2);
  client::WriteStream stream = client().OpenWrites("live");
  std::thread sender([&] {
    EXPECT_TRUE(stream.Put(5, {.labels = rows}, Raw(vectors), {}, "first").ok());
    EXPECT_TRUE(stream.Put(6, {.labels = rows}, Raw(vectors), {}, "first").ok());
    EXPECT_TRUE(stream.Update(7, {.labels = missing}, year).ok());
    EXPECT_TRUE(stream.Update(8, {.labels = second}, year).ok());
    EXPECT_TRUE(stream.Delete(9, {.labels = rows}).ok());
    EXPECT_TRUE(stream.DoneSending().ok());
  });
  for (const std::uint64_t id : {5u, 6u, 7u, 8u, 9u}) {
    const auto next = stream.Receive();
    ASSERT_TRUE(next.ok() && next->has_value()) << next.status();
    EXPECT_EQ((*next)->id, id);
    const absl::StatusOr<client::Written>& written = (*next)->written;
    if (id == 7) {
      EXPECT_TRUE(absl::IsNotFound(written.status())) << written.status();
      continue;
    }
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->sequence, id < 7 ? 1 : id - 6) << "once";
    EXPECT_EQ(written->rows, id == 8 ? 1u : 2u);
  }
  sender.join();
  EXPECT_FALSE(stream.Receive()->has_value());
  EXPECT_EQ(client().Describe("live")->n, 0u);
  client::WriteStream refused = client().OpenWrites("none");
  EXPECT_TRUE(refused.Put(1, {.labels = rows}, Raw(vectors)).ok());
  EXPECT_TRUE(absl::IsNotFound((*refused.Receive())->written.status()));
}

/// Each of many writers learns when to come again, comes, and has its turn.
TEST_F(WriteTest, ManyWritersWaitForRoom) {
  delta_bytes_ = 1 << 20;
  Serve();
  std::uint64_t next = 1000;
  const auto fill = [&] {
    std::vector<std::uint64_t> labels(300);
    std::iota(labels.begin(), labels.end(), next);
    return Put(labels).ok();
  };
  while (fill()) next += 300;
  std::vector<std::thread> writers;
  for (std::uint64_t label = 0; label < 64; ++label) {
    writers.emplace_back([&, label] {
      absl::Status last = absl::UnknownError("");
      for (int tries = 0; tries < 150 && !last.ok(); ++tries) {
        last = Put({label}).status();
        EXPECT_TRUE(last.ok() || absl::IsResourceExhausted(last)) << last;
        std::this_thread::sleep_for(std::chrono::milliseconds(last.ok() ? 0 : 200));
      }
      EXPECT_TRUE(last.ok()) << last;
    });
  }
  ASSERT_TRUE(client().Compact("live", {.deadline = std::chrono::minutes(1)}).ok());
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(client().Describe("live")->n, next - 1000 + 64);
}

TEST_F(WriteTest, WhatIsAcknowledgedWhileItIsUnloadedIsThere) {
  ServeOperators();
  client::Client admin = Operator();
  std::atomic<int> acknowledged = 0;
  std::vector<std::thread> writers;
  for (std::uint64_t w = 0; w < 4; ++w) {
    writers.emplace_back([&, w, writer = Operator()]() mutable {
      for (std::uint64_t label = w * 10'000;; ++label) {
        const auto put = writer.Put("live", {.labels = {{label}}}, Raw(Made(label % 250)));
        if (!put.ok()) {
          EXPECT_EQ(put.status().code(), StatusCode::kNotFound) << put.status();
          return;
        }
        ++acknowledged;
      }
    });
  }
  while (acknowledged < 40) std::this_thread::yield();
  EXPECT_TRUE(admin.Unload("live").ok());
  for (std::thread& writer : writers) writer.join();
  const auto loaded = admin.Load("live", live_, {}, {.deadline = std::chrono::minutes(1)});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(admin.Describe("live")->n, static_cast<std::uint64_t>(acknowledged));
}

/// Searches go on, whatever else happens.
TEST_F(WriteTest, NoSearchFailsWhileItMergesAndIndexesAreSwapped) {
  const bool is_soak = std::getenv("HMANN_SOAK") != nullptr;
  const int merges = is_soak ? 20 : 4, swaps = is_soak ? 100 : 10;
  ServeOperators();
  client::Client writer = Operator(), other = Operator();
  const auto put = [&](std::uint64_t first) {
    for (std::uint64_t label = first; label < first + 200; ++label)
      EXPECT_TRUE(writer.Put("live", {.labels = {{label}}}, Raw(Made(label % 250))).ok());
  };
  put(0);
  std::atomic<bool> over = false;
  std::atomic<int> searches = 0;
  std::vector<std::thread> searchers;
  const auto search = [&](const char* index, const client::Vectors& query) {
    client::Client client = Operator();
    while (!over) {
      const auto found = client.Search(index, query, {.k = 3});
      ASSERT_TRUE(found.ok()) << index << ": " << found.status();
      ASSERT_EQ(found->ids.size(), 3u);
      ++searches;
    }
  };
  const std::vector<std::uint8_t> query = Made(9);
  searchers.emplace_back([&] { search("live", Raw(query)); });
  const auto shape = other.Describe("fixed");
  ASSERT_TRUE(shape.ok()) << shape.status();
  const std::vector<float> one(shape->dim, 1.0F);
  searchers.emplace_back([&] { search("fixed", client::Vectors::Floats(one)); });
  std::thread swapper([&] {
    for (int i = 0; i < swaps; ++i) {
      const auto swapped =
          other.Swap("fixed", CosineIndex(), {.deadline = std::chrono::minutes(1)});
      EXPECT_TRUE(swapped.ok()) << swapped.status();
    }
  });
  for (int i = 1; i <= merges; ++i) {
    put(static_cast<std::uint64_t>(i) * 100);
    const auto merged = writer.Compact("live", {.deadline = std::chrono::minutes(1)});
    EXPECT_TRUE(merged.ok()) << merged.status();
  }
  swapper.join();
  over = true;
  for (std::thread& thread : searchers) thread.join();
  EXPECT_GT(searches, merges);
  if (is_soak) std::cout << searches << " searches\n";
  // A swap of a collection to itself is refused, and says why.
  const auto itself = other.Swap("live");
  EXPECT_EQ(itself.status().code(), StatusCode::kFailedPrecondition) << itself.status();
  EXPECT_THAT(std::string(itself.status().message()), HasSubstr("merges need no swap"));
}

TEST_F(WriteTest, ManyWritersAtOnce) {
  constexpr std::uint64_t kWriters = 16, kWrites = 20;
  std::vector<std::thread> writers;
  for (std::uint64_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (std::uint64_t i = 0; i < kWrites; ++i) {
        const auto put = Put({w * kWrites + i});
        ASSERT_TRUE(put.ok()) << put.status();
        const auto found = Nearest(w * kWrites + i);
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_GE(found->sequence, put->sequence);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(client().Describe("live")->n, kWriters * kWrites);
}

}  // namespace
}  // namespace hmann::server
