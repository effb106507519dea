// Vald's calls through a real server: answers are those of hmann.v1 to the bit, with
// distances on Vald's scale, and what is wrong is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "datasets/testing/temp_folder.h"
#include "datasets/vector_file.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"
#include "hmann/collection.h"
#include "index/construct/pipeline.h"
#include "server/testing/vald_agent.h"

namespace hmann::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kSampleDim = 128;
constexpr std::uint32_t kFloatRows = 2000;

std::size_t NumberIn(const std::string& text) {
  std::size_t number = 0;
  EXPECT_TRUE(absl::SimpleAtoi(text, &number)) << text;
  return number;
}

void ExpectRooted(const std::vector<std::uint64_t>& ids, const std::vector<float>& squared,
                  const payload::Search_Response& response) {
  ASSERT_EQ(static_cast<std::size_t>(response.results_size()), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto& result = response.results(static_cast<int>(i));
    EXPECT_EQ(result.id(), absl::StrCat(ids[i]));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(result.distance()),
              std::bit_cast<std::uint32_t>(std::sqrt(squared[i])));
  }
}

class ValdTest : public testing::Test {
 protected:
  /// The first test starts the servers: a folder has the name of a test.
  void SetUp() override {
    if (folder_ != nullptr) return;
    folder_ = new TempFolder;
    const std::string floats = *folder_ / "floats.hmann";
    const auto sample = *VectorFile::Open("datasets/sample/base.u8bin", kFloatRows);
    std::string base;
    const auto append = [&](auto value) {
      base.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    append(std::uint32_t{kFloatRows});
    append(static_cast<std::uint32_t>(kSampleDim));
    for (std::uint64_t i = 0; i < kFloatRows; ++i)
      for (std::size_t j = 0; j < kSampleDim; ++j) append(static_cast<float>(sample.Row(i)[j]));
    BuildOptions options;
    options.base = folder_->Write("base.fbin", base);
    options.out = floats;
    Progress quiet(Progress::Show::kNever);
    ASSERT_TRUE(BuildIndex(options, quiet).ok());
    u8_ = new Agent(LoopbackOptions({{"sift", SampleIndex()}}), "sift");
    f32_ = new Agent(LoopbackOptions({{"sift", floats}}), "sift");
  }
  static void TearDownTestSuite() {
    delete u8_;
    delete f32_;
    delete folder_;
  }
  static inline TempFolder* folder_ = nullptr;
  static inline Agent *u8_ = nullptr, *f32_ = nullptr;
};

TEST_F(ValdTest, AnswersAreThoseOfHmannWithRootedDistances) {
  for (const Agent* agent : {u8_, f32_}) {
    payload::Search_MultiRequest all;
    std::vector<client::Answer> answers;
    for (std::size_t i = 0; i < 20; ++i) {
      const std::vector<float> vector = FloatsOf(i);
      const auto expected = agent->served->client->Search("sift", client::Vectors::Floats(vector),
                                                          {.k = 10, .ef_l0 = 40});
      ASSERT_TRUE(expected.ok()) << expected.status();
      payload::Search_Request request = Asking(vector, 10);
      request.mutable_config()->set_edge_size(40);
      request.mutable_config()->set_request_id(absl::StrCat("request ", i));
      payload::Search_Response response;
      const grpc::Status status = agent->Search(request, &response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(response.request_id(), absl::StrCat("request ", i));
      ExpectRooted(expected->ids, expected->distances, response);
      *all.add_requests() = request;
      answers.push_back(*expected);
    }
    payload::Search_Responses responses;
    ASSERT_TRUE(agent->Call(agent->search, &vald::Search::Stub::MultiSearch, all, &responses).ok());
    ASSERT_EQ(responses.responses_size(), 20);
    for (std::size_t i = 0; i < 20; ++i) {
      ExpectRooted(answers[i].ids, answers[i].distances, responses.responses(static_cast<int>(i)));
      EXPECT_EQ(responses.responses(static_cast<int>(i)).request_id(), absl::StrCat("request ", i));
    }
  }
}

TEST_F(ValdTest, ASearchByIdIsASearchForItsVector) {
  for (const Agent* agent : {u8_, f32_}) {
    payload::Search_MultiIDRequest all;
    std::vector<std::vector<std::string>> expected;
    for (const char* id : {"0", "7", "1999"}) {
      payload::Object_VectorRequest get;
      get.mutable_id()->set_id(id);
      payload::Object_Vector vector;
      ASSERT_TRUE(agent->Call(agent->object, &vald::Object::Stub::GetObject, get, &vector).ok());
      EXPECT_EQ(vector.id(), id);
      ASSERT_EQ(vector.vector_size(), static_cast<int>(kSampleDim));
      payload::Search_Response by_vector, by_id;
      ASSERT_TRUE(
          agent->Search(Asking({vector.vector().begin(), vector.vector().end()}, 5), &by_vector)
              .ok());
      payload::Search_IDRequest request;
      request.set_id(id);
      request.mutable_config()->set_num(5);
      ASSERT_TRUE(
          agent->Call(agent->search, &vald::Search::Stub::SearchByID, request, &by_id).ok());
      EXPECT_EQ(by_id.SerializeAsString(), by_vector.SerializeAsString());
      EXPECT_EQ(by_id.results(0).distance(), 0);
      *all.add_requests() = request;
      expected.push_back(Ids(by_id));
    }
    payload::Search_Responses responses;
    ASSERT_TRUE(
        agent->Call(agent->search, &vald::Search::Stub::MultiSearchByID, all, &responses).ok());
    ASSERT_EQ(responses.responses_size(), 3);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(Ids(responses.responses(i)), expected[static_cast<std::size_t>(i)]);
  }
}

TEST_F(ValdTest, AStreamAnswersEachOfItsRequests) {
  grpc::ClientContext context;
  const auto stream = u8_->search->StreamSearch(&context);
  constexpr std::size_t kSent = 300;
  std::thread writer([&] {
    for (std::size_t i = 0; i < kSent; ++i) {
      payload::Search_Request request = Asking(FloatsOf(i % 20), i == 150 ? 0 : 3);
      request.mutable_config()->set_request_id(absl::StrCat(i));
      EXPECT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  std::size_t failed = 0;
  std::vector<bool> seen(kSent);
  payload::Streamed streamed;
  while (stream->Read(&streamed)) {
    if (streamed.has_status()) {
      ++failed;
      google::rpc::Status status;
      ASSERT_TRUE(status.ParseFromString(streamed.status()));
      EXPECT_EQ(status.code(), grpc::StatusCode::INVALID_ARGUMENT);
      EXPECT_THAT(status.message(), HasSubstr("config.num: expected 1 to 100, found 0"));
      continue;
    }
    payload::Search_Response response;
    ASSERT_TRUE(response.ParseFromString(streamed.message()));
    const std::size_t i = NumberIn(response.request_id());
    seen[i] = true;
    payload::Search_Response alone;
    if (i % 30 != 0) continue;
    ASSERT_TRUE(u8_->Search(Asking(FloatsOf(i % 20), 3), &alone).ok());
    EXPECT_EQ(Ids(response), Ids(alone));
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(failed, 1u);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<int>(kSent - 1));
}

TEST_F(ValdTest, AStreamThatIsNotReadHoldsUpNoOther) {
  grpc::ClientContext context;
  const auto stream = u8_->search->StreamSearch(&context);
  std::atomic<int> written{0};
  std::thread writer([&] {
    while (stream->Write(Asking(FloatsOf(0), 100))) ++written;
  });
  while (written < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  payload::Search_Response response;
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(u8_->Search(Asking(FloatsOf(1), 3), &response).ok());
  context.TryCancel();
  writer.join();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ValdTest, NumRadiusAndLeastNumberCutAnswers) {
  payload::Search_Response all, some;
  payload::Search_Request request = Asking(FloatsOf(0), 50);
  ASSERT_TRUE(u8_->Search(request, &all).ok());
  ASSERT_EQ(all.results_size(), 50);
  const float radius = all.results(20).distance();
  request.mutable_config()->set_radius(radius);
  ASSERT_TRUE(u8_->Search(request, &some).ok());
  EXPECT_GE(some.results_size(), 21);
  EXPECT_LT(some.results_size(), 50);
  for (const auto& result : some.results()) EXPECT_LE(result.distance(), radius);
  request.mutable_config()->set_min_num(50);
  ExpectRefused(u8_->Search(request, &some), grpc::StatusCode::NOT_FOUND, "config.min_num");
  for (const float none : {-1.0f, 0.0f}) {
    request.mutable_config()->set_radius(none);
    ASSERT_TRUE(u8_->Search(request, &some).ok());
    EXPECT_EQ(some.results_size(), 50);
  }
  // Each of a batch has its own num.
  payload::Search_MultiRequest batch;
  *batch.add_requests() = Asking(FloatsOf(0), 3);
  *batch.add_requests() = Asking(FloatsOf(0), 7);
  payload::Search_Responses responses;
  ASSERT_TRUE(u8_->Call(u8_->search, &vald::Search::Stub::MultiSearch, batch, &responses).ok());
  EXPECT_EQ(responses.responses(0).results_size(), 3);
  EXPECT_EQ(responses.responses(1).results_size(), 7);
}

TEST_F(ValdTest, WhatIsWrongIsNamed) {
  const std::vector<float> good = FloatsOf(0);
  payload::Search_Response response;
  const auto refused = [&](const payload::Search_Request& request, const std::string& words) {
    ExpectRefused(u8_->Search(request, &response), grpc::StatusCode::INVALID_ARGUMENT, words);
  };
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, kSampleDim / 2, std::size_t{65536}})
    refused(Asking(std::vector<float>(size), 3), absl::StrCat("vector: expected 128 floats"));
  for (const float bad : {0.5f, 256.0f, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    std::vector<float> vector = good;
    vector[5] = bad;
    refused(Asking(vector, 3), "component 5");
  }
  std::vector<float> nan = good;
  nan[5] = std::numeric_limits<float>::quiet_NaN();
  ExpectRefused(f32_->Search(Asking(nan, 3), &response), grpc::StatusCode::INVALID_ARGUMENT,
                "vector: ");
  for (const std::uint32_t num : {0u, 101u, 4'000'000'000u})
    refused(Asking(good, num), absl::StrCat("config.num: expected 1 to 100, found ", num));
  payload::Search_Request request = Asking(good, 3);
  request.mutable_config()->set_timeout(-1);
  refused(request, "config.timeout");
  request.mutable_config()->set_timeout(0);
  request.mutable_config()->set_radius(std::numeric_limits<float>::quiet_NaN());
  refused(request, "config.radius");
  request.mutable_config()->set_radius(0);
  request.mutable_config()->set_edge_size(std::numeric_limits<std::int32_t>::max());
  refused(request, "config.edge_size");
  request.mutable_config()->set_edge_size(-2);
  request.mutable_config()->set_timeout(std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(u8_->Search(request, &response).ok());
  request.mutable_config()->set_timeout(1);
  EXPECT_FALSE(u8_->Search(request, &response).ok());

  payload::Search_MultiRequest batch;
  payload::Search_Responses responses;
  const auto multi = [&] {
    return u8_->Call(u8_->search, &vald::Search::Stub::MultiSearch, batch, &responses);
  };
  ExpectRefused(multi(), grpc::StatusCode::INVALID_ARGUMENT, "requests: expected one or more");
  *batch.add_requests() = Asking(good, 3);
  *batch.add_requests() = Asking(std::vector<float>(3), 3);
  ExpectRefused(multi(), grpc::StatusCode::INVALID_ARGUMENT, "requests[1].vector: expected 128");
  for (int i = 0; i < 63; ++i) *batch.add_requests() = Asking(good, 3);
  ExpectRefused(multi(), grpc::StatusCode::INVALID_ARGUMENT,
                "requests: expected at most 64, found 65");
}

TEST_F(ValdTest, IdsAreDecimalNumbers) {
  const auto exists = [&](const std::string& id) {
    payload::Object_ID request, response;
    request.set_id(id);
    return u8_->Call(u8_->object, &vald::Object::Stub::Exists, request, &response);
  };
  EXPECT_TRUE(exists("9999").ok());
  ExpectRefused(exists(""), grpc::StatusCode::INVALID_ARGUMENT, "id: expected one");
  for (const char* id : {"10000", "007", "1e3", "+7", " 7", "-1", "0x1", "18446744073709551615",
                         "99999999999999999999", "seven"})
    ExpectRefused(exists(id), grpc::StatusCode::NOT_FOUND, "no vector of the index has it");
  EXPECT_FALSE(exists("\xff\xfe").ok());
  payload::Search_IDRequest request;
  request.set_id("007");
  request.mutable_config()->set_num(3);
  payload::Search_Response response;
  ExpectRefused(u8_->Call(u8_->search, &vald::Search::Stub::SearchByID, request, &response),
                grpc::StatusCode::NOT_FOUND, "007");
}

TEST_F(ValdTest, AllVectorsAreListed) {
  grpc::ClientContext context;
  const auto list = f32_->object->StreamListObject(&context, {});
  std::vector<bool> seen(kFloatRows);
  payload::Streamed streamed;
  while (list->Read(&streamed)) {
    payload::Object_Vector vector;
    ASSERT_TRUE(vector.ParseFromString(streamed.message()));
    const std::size_t i = NumberIn(vector.id());
    EXPECT_FALSE(seen.at(i));
    seen[i] = true;
    EXPECT_EQ(vector.vector_size(), static_cast<int>(kSampleDim));
  }
  EXPECT_TRUE(list->Finish().ok());
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), kFloatRows);
  // One that goes away early leaves the others as they are.
  grpc::ClientContext early;
  const auto cut = f32_->object->StreamListObject(&early, {});
  ASSERT_TRUE(cut->Read(&streamed));
  early.TryCancel();
  EXPECT_EQ(cut->Finish().error_code(), grpc::StatusCode::CANCELLED);
  payload::Search_Response response;
  EXPECT_TRUE(f32_->Search(Asking(FloatsOf(1), 3), &response).ok());
}

TEST_F(ValdTest, FactsOfTheIndexAndOfAllAgentsAreTold) {
  payload::Info_Index_Count count;
  ASSERT_TRUE(u8_->Call(u8_->index, &vald::Index::Stub::IndexInfo, {}, &count).ok());
  EXPECT_EQ(count.stored(), 10000u);
  EXPECT_FALSE(count.indexing());
  count.Clear();
  ASSERT_TRUE(u8_->Call(u8_->agent, &::core::v1::Agent::Stub::IndexInfo, {}, &count).ok());
  EXPECT_EQ(count.stored(), 10000u);
  payload::Info_Index_Detail detail;
  ASSERT_TRUE(u8_->Call(u8_->index, &vald::Index::Stub::IndexDetail, {}, &detail).ok());
  EXPECT_EQ(detail.counts().at("sift").stored(), 10000u);
  payload::Info_Index_PropertyDetail property;
  ASSERT_TRUE(f32_->Call(f32_->index, &vald::Index::Stub::IndexProperty, {}, &property).ok());
  EXPECT_EQ(property.details().at("sift").dimension(), 128);
  EXPECT_EQ(property.details().at("sift").object_type(), "Float");
  EXPECT_EQ(property.details().at("sift").distance_type(), "L2");
  payload::Empty empty;
  EXPECT_TRUE(u8_->Call(u8_->agent, &::core::v1::Agent::Stub::CreateIndex, {}, &empty).ok());
  EXPECT_TRUE(u8_->Call(u8_->agent, &::core::v1::Agent::Stub::SaveIndex, {}, &empty).ok());
  EXPECT_TRUE(u8_->Call(u8_->agent, &::core::v1::Agent::Stub::CreateAndSaveIndex, {}, &empty).ok());
  payload::Info_Nodes nodes;
  using Discoverer = ::discoverer::v1::Discoverer;
  ASSERT_TRUE(u8_->Call(u8_->discoverer, &Discoverer::Stub::Nodes, {}, &nodes).ok());
  ASSERT_EQ(nodes.nodes_size(), 2);
  EXPECT_EQ(nodes.nodes(1).pods().pods(0).ip(), "10.0.0.2");
  payload::Info_Pods pods;
  ASSERT_TRUE(u8_->Call(u8_->discoverer, &Discoverer::Stub::Pods, {}, &pods).ok());
  EXPECT_EQ(pods.pods(0).ip(), "10.0.0.1");
}

TEST_F(ValdTest, ALoneIndexIsNotWritten) {
  payload::Insert_Request request;
  request.mutable_vector()->set_id("1");
  payload::Object_Location location;
  ExpectRefused(u8_->Call(u8_->insert, &vald::Insert::Stub::Insert, request, &location),
                grpc::StatusCode::UNIMPLEMENTED, "index 'sift' does not change");
}

}  // namespace
}  // namespace hmann::server
