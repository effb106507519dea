// Writes of Vald's clients to a collection, through a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"
#include "hmann/collection.h"
#include "server/testing/vald_agent.h"

namespace hmann::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A collection behind Vald's calls.
class ValdWriteTest : public testing::Test {
 protected:
  void SetUp() override {
    CreateCollection create;
    create.dtype = DType::kF32;
    create.dim = 4;
    create.build.m = 4;
    ASSERT_TRUE(Collection::Create(folder_ / "c.live", create).ok());
    agent_ = std::make_unique<Agent>(LoopbackOptions({{"live", folder_ / "c.live"}}), "live");
  }
  template <typename Request>
  static Request With(const std::string& id, float value) {
    Request request;
    request.mutable_vector()->set_id(id);
    for (int i = 0; i < 4; ++i) request.mutable_vector()->add_vector(value);
    return request;
  }
  grpc::Status Insert(const std::string& id, float value) {
    payload::Object_Location location;
    const grpc::Status status = agent_->Call(agent_->insert, &vald::Insert::Stub::Insert,
                                             With<payload::Insert_Request>(id, value), &location);
    EXPECT_EQ(location.uuid(), status.ok() ? id : "");
    return status;
  }
  grpc::Status Update(const std::string& id, float value) {
    payload::Object_Location location;
    return agent_->Call(agent_->update, &vald::Update::Stub::Update,
                        With<payload::Update_Request>(id, value), &location);
  }
  grpc::Status Upsert(const std::string& id, float value) {
    payload::Object_Location location;
    return agent_->Call(agent_->upsert, &vald::Upsert::Stub::Upsert,
                        With<payload::Upsert_Request>(id, value), &location);
  }
  grpc::Status Remove(const std::string& id) {
    payload::Remove_Request request;
    request.mutable_id()->set_id(id);
    payload::Object_Location location;
    return agent_->Call(agent_->remove, &vald::Remove::Stub::Remove, request, &location);
  }
  std::vector<std::string> Nearest(float value) {
    payload::Search_Response response;
    const grpc::Status status = agent_->Search(Asking(std::vector<float>(4, value), 3), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Ids(response);
  }

  TempFolder folder_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(ValdWriteTest, WhatIsInsertedIsFoundAndWhatIsRemovedIsGone) {
  EXPECT_THAT(Nearest(1), IsEmpty());
  ASSERT_TRUE(Insert("5", 5).ok());
  ASSERT_TRUE(Insert("a name", 6).ok());
  ASSERT_TRUE(Insert("007", 7).ok());
  ASSERT_TRUE(Insert("9223372036854775807", 20).ok()) << "the largest number";
  ASSERT_TRUE(Insert("9223372036854775808", 30).ok()) << "a string";
  EXPECT_THAT(Nearest(5), ElementsAre("5", "a name", "007"));
  EXPECT_THAT(Nearest(24), ElementsAre("9223372036854775807", "9223372036854775808", "007"));
  ExpectRefused(Insert("5", 8), grpc::StatusCode::ALREADY_EXISTS, "label 5");
  ExpectRefused(Insert("a name", 8), grpc::StatusCode::ALREADY_EXISTS, "label");
  ExpectRefused(Update("6", 6), grpc::StatusCode::NOT_FOUND, "label 6");
  EXPECT_TRUE(Update("5", 100).ok());
  EXPECT_THAT(Nearest(100)[0], "5");
  EXPECT_TRUE(Upsert("5", 5).ok());
  EXPECT_TRUE(Upsert("6", 5.5f).ok());
  EXPECT_THAT(Nearest(5), ElementsAre("5", "6", "a name"));
  EXPECT_TRUE(Remove("5").ok());
  EXPECT_TRUE(Remove("a name").ok());
  ExpectRefused(Remove("5"), grpc::StatusCode::NOT_FOUND, "label 5");
  EXPECT_THAT(Nearest(5), ElementsAre("6", "007", "9223372036854775807"));
  ExpectRefused(Insert("", 1), grpc::StatusCode::INVALID_ARGUMENT, "id: expected one");
  ExpectRefused(Insert(std::string(1025, 'x'), 1), grpc::StatusCode::INVALID_ARGUMENT, "1025");
  EXPECT_FALSE(Insert("\xff\xfe", 1).ok());
  ExpectRefused(Insert("8", std::numeric_limits<float>::quiet_NaN()),
                grpc::StatusCode::INVALID_ARGUMENT, "NaN");
  payload::Info_Index_Count count;
  ASSERT_TRUE(agent_->Call(agent_->index, &vald::Index::Stub::IndexInfo, {}, &count).ok());
  EXPECT_EQ(count.stored(), 4u);

  ASSERT_TRUE(agent_->served->client->Compact("live").ok());
  ExpectRefused(Insert("6", 8), grpc::StatusCode::ALREADY_EXISTS, "label 6");
  ASSERT_TRUE(Insert("8", 8).ok());
  ASSERT_TRUE(Remove("007").ok());
  grpc::ClientContext context;
  const auto list = agent_->object->StreamListObject(&context, {});
  std::vector<std::string> ids;
  payload::Streamed streamed;
  while (list->Read(&streamed)) {
    payload::Object_Vector vector;
    ASSERT_TRUE(vector.ParseFromString(streamed.message()));
    ids.push_back(absl::StrCat(vector.id(), "=", vector.vector(3)));
  }
  EXPECT_TRUE(list->Finish().ok());
  EXPECT_THAT(ids, testing::UnorderedElementsAre("6=5.5", "9223372036854775807=20",
                                                 "9223372036854775808=30", "8=8"));
}

TEST_F(ValdWriteTest, ABatchIsWrittenWholeOrNotAtAll) {
  payload::Insert_MultiRequest request;
  for (const char* id : {"1", "2", "3"})
    *request.add_requests() = With<payload::Insert_Request>(id, 1);
  payload::Object_Locations locations;
  const auto insert = [&] {
    locations.Clear();
    return agent_->Call(agent_->insert, &vald::Insert::Stub::MultiInsert, request, &locations);
  };
  ASSERT_TRUE(insert().ok());
  EXPECT_EQ(locations.locations_size(), 3);
  EXPECT_EQ(locations.locations(2).uuid(), "3");
  request.mutable_requests(0)->mutable_vector()->set_id("4");
  ExpectRefused(insert(), grpc::StatusCode::ALREADY_EXISTS, "label 2");
  ExpectRefused(Remove("4"), grpc::StatusCode::NOT_FOUND, "label 4");
  payload::Remove_MultiRequest gone;
  for (const char* id : {"1", "2", "4"}) gone.add_requests()->mutable_id()->set_id(id);
  const auto remove = [&] {
    return agent_->Call(agent_->remove, &vald::Remove::Stub::MultiRemove, gone, &locations);
  };
  ExpectRefused(remove(), grpc::StatusCode::NOT_FOUND, "label 4");
  gone.mutable_requests()->RemoveLast();
  ASSERT_TRUE(remove().ok());
  EXPECT_THAT(Nearest(1), ElementsAre("3"));
}

TEST_F(ValdWriteTest, OfManyInsertsOfAnIdOneSucceeds) {
  std::atomic<int> inserted{0}, refused{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const grpc::Status status = Insert(absl::StrCat(i), static_cast<float>(t));
        inserted += status.ok() ? 1 : 0;
        refused += status.error_code() == grpc::StatusCode::ALREADY_EXISTS ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(inserted, 50);
  EXPECT_EQ(refused, 150);
}

TEST_F(ValdWriteTest, AStreamInsertsAndTellsEachOutcome) {
  grpc::ClientContext context;
  const auto stream = agent_->insert->StreamInsert(&context);
  ASSERT_TRUE(Insert("7", 7).ok());
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(stream->Write(With<payload::Insert_Request>(absl::StrCat(i), 1)));
  stream->WritesDone();
  int written = 0, failed = 0;
  payload::Streamed streamed;
  while (stream->Read(&streamed)) ++(streamed.has_status() ? failed : written);
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(written, 19);
  EXPECT_EQ(failed, 1);
}

TEST(ValdRightsTest, AReaderSearchesAndDoesNotWrite) {
  const TempFolder folder;
  CreateCollection create;
  create.dim = 4;
  create.build.m = 4;
  ASSERT_TRUE(Collection::Create(folder / "c.live", create).ok());
  ServerOptions options = LoopbackOptions({{"live", folder / "c.live"}});
  options.tokens = folder.Write(
      "tokens", "3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30 read\n");
  Agent agent(options, "live");
  payload::Search_Response found;
  const payload::Search_Request request = Asking(std::vector<float>(4, 1), 3);
  EXPECT_EQ(agent.Search(request, &found).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  payload::Info_Index_Count count;
  EXPECT_EQ(agent.Call(agent.index, &vald::Index::Stub::IndexInfo, {}, &count).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  agent.token = "reader";
  EXPECT_TRUE(agent.Search(request, &found).ok());
  EXPECT_TRUE(agent.Call(agent.index, &vald::Index::Stub::IndexInfo, {}, &count).ok());
  payload::Object_Location location;
  payload::Insert_Request insert;
  insert.mutable_vector()->set_id("1");
  EXPECT_EQ(agent.Call(agent.insert, &vald::Insert::Stub::Insert, insert, &location).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace hmann::server
