// Tokens that are for some indexes, or until some time: what a real server answers their
// holders, on every method and while a stream is open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "datasets/testing/temp_folder.h"
#include "grpcpp/client_context.h"
#include "hmann/v1/search.grpc.pb.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// The SHA-256 of "operator", "keeper" and "reader".
constexpr char kOperator[] = "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23",
               kKeeper[] = "00aa8942525b763cbe72e4a0fbfbb027b909dd8299e9c6c85c28d3d42d2cc28b",
               kReader[] = "3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30";

client::Vectors One() { return client::Vectors::Raw(SampleQueries(0, 1), 1); }

class RightsTest : public testing::Test {
 protected:
  RightsTest() {
    ServerOptions options = LoopbackOptions(
        {{"tenant-a", CosineIndex()}, {"tenant-b", CosineIndex()}, {"other", CosineIndex()}});
    options.aliases = {{"tenant-x", "other"}, {"first", "tenant-a"}};
    options.tokens = WriteTokens("read indexes=tenant-?");
    server_ = *Server::Start(options);
    EXPECT_TRUE(WaitLoaded(*server_).ok());
    reader_.emplace(Connected("reader"));
  }

  /// `reader`: what the line of its token says after the hash; empty: there is none.
  std::string WriteTokens(const std::string& reader) {
    std::string text = absl::StrCat(kOperator, " admin\n", kKeeper, " admin indexes=tenant-a\n",
                                    kKeeper, " read indexes=tenant-*\n");
    if (!reader.empty()) absl::StrAppend(&text, kReader, " ", reader, "\n");
    return folder_.Write("tokens", text);
  }
  client::Client Connected(const std::string& token) {
    return *client::Client::Connect(
        server_->address(),
        {.own_connection = true, .retry = false, .token_file = folder_.Write(token, token)});
  }
  absl::Status Ask(const std::string& index) {
    return reader_->Search(index, One(), {.k = 3}).status();
  }
  static absl::Status Next(client::SearchStream& stream) {
    stream.Send(1, One()).IgnoreError();
    const auto answer = stream.Receive();
    return answer.ok() ? (*answer)->answer.status() : answer.status();
  }
  /// How a stream ends that has answered one query, once `reader` is in the token file.
  absl::Status EndOfStream(const std::string& reader) {
    auto stream = reader_->OpenStream("tenant-a", {.k = 3}, {.deadline = 60s});
    EXPECT_EQ(Next(stream), absl::OkStatus());
    WriteTokens(reader);
    server_->Reload();
    for (;;) {
      if (absl::Status end = Next(stream); !end.ok()) return end;
      std::this_thread::sleep_for(10ms);
    }
  }

  const TempFolder folder_;
  std::unique_ptr<Server> server_;
  std::optional<client::Client> reader_;
};

TEST_F(RightsTest, ANameBeyondTheRightsIsDeniedWhetherItExistsOrNot) {
  const std::vector<std::uint64_t> label = {0};
  std::vector<std::string> messages;
  for (const std::string name : {"other", "none", "tenant-", "tenant-aa", ""}) {
    auto stream = reader_->OpenStream(name, {.k = 3}, {.deadline = 60s});
    const std::vector<absl::Status> denied = {
        Ask(name), reader_->SearchBatch(name, One(), {.k = 3}).status(), Next(stream),
        reader_->Get(name, label).status(), reader_->Describe(name).status()};
    for (const absl::Status& status : denied) {
      EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << name << status;
      EXPECT_EQ(Reason(status), "INDEX_NOT_PERMITTED") << name;
      EXPECT_EQ(status.message(), denied[0].message());
    }
    messages.push_back(absl::StrReplaceAll(denied[0].message(), {{"none", "other"}}));
  }
  EXPECT_EQ(messages[0], messages[1]) << "they do not tell which of them exists";
}

TEST_F(RightsTest, WhatIsWithinTheRightsIsAnswered) {
  const std::vector<std::uint64_t> label = {0};
  for (const std::string name : {"tenant-a", "tenant-b"}) {
    auto stream = reader_->OpenStream(name, {.k = 3}, {.deadline = 60s});
    EXPECT_EQ(Ask(name), absl::OkStatus());
    EXPECT_EQ(reader_->SearchBatch(name, One(), {.k = 3}).status(), absl::OkStatus());
    EXPECT_EQ(Next(stream), absl::OkStatus());
    EXPECT_EQ(reader_->Get(name, label).status(), absl::OkStatus());
    EXPECT_EQ(reader_->Describe(name).status(), absl::OkStatus());
    EXPECT_EQ(Reason(reader_->Describe(name, {}, true).status()), "ROLE_TOO_LOW");
  }
  const absl::Status missing = Ask("tenant-z");
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), Not(HasSubstr("other")));
  const auto listed = reader_->List();
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_EQ((*listed)[0].name, "tenant-a");
  EXPECT_EQ((*listed)[1].name, "tenant-b");
  EXPECT_EQ(Connected("operator").List()->size(), 3u);
}

TEST_F(RightsTest, AnAliasIsANameOfItsOwn) {
  EXPECT_EQ(Ask("tenant-x"), absl::OkStatus());
  EXPECT_EQ(Reason(Ask("other")), "INDEX_NOT_PERMITTED");
  EXPECT_EQ(Reason(Ask("first")), "INDEX_NOT_PERMITTED");
}

TEST_F(RightsTest, AnOperatorOfSomeIndexesChangesThese) {
  client::Client keeper = Connected("keeper");
  const auto status = keeper.Status();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->size(), 1u);
  EXPECT_EQ((*status)[0].name, "tenant-a");
  EXPECT_EQ(keeper.Swap("tenant-a").status(), absl::OkStatus());
  EXPECT_EQ(keeper.ExactSearch("tenant-a", One(), {.k = 3}).status(), absl::OkStatus());
  EXPECT_EQ(keeper.Describe("tenant-a", {}, true).status(), absl::OkStatus());
  EXPECT_EQ(keeper.Unload("tenant-a"), absl::OkStatus());
  EXPECT_EQ(keeper.Unload("tenant-a").code(), StatusCode::kNotFound);
  EXPECT_EQ(keeper.Load("tenant-a", CosineIndex()).status(), absl::OkStatus());
  for (const auto& [name, reason] :
       {std::pair<std::string, const char*>("tenant-b", "ROLE_TOO_LOW"),
        {"other", "INDEX_NOT_PERMITTED"},
        {"none", "INDEX_NOT_PERMITTED"}}) {
    for (const absl::Status& denied :
         {keeper.Status(name).status(), keeper.Swap(name).status(), keeper.Unload(name),
          keeper.Load(name, CosineIndex()).status(),
          keeper.ExactSearch(name, One(), {.k = 3}).status(),
          keeper.Describe(name, {}, true).status()}) {
      EXPECT_EQ(denied.code(), StatusCode::kPermissionDenied) << name << denied;
      EXPECT_EQ(Reason(denied), reason) << name << denied;
    }
  }
  EXPECT_EQ(keeper.Search("tenant-b", One(), {.k = 3}).status(), absl::OkStatus());
  const absl::Status drained = keeper.Drain();
  EXPECT_EQ(Reason(drained), "ROLE_TOO_LOW");
  EXPECT_THAT(std::string(drained.message()), HasSubstr("for all indexes"));
  client::Client operates = Connected("operator");
  EXPECT_EQ(operates.Status()->size(), 3u);
  EXPECT_EQ(operates.Drain(), absl::OkStatus());
}

/// All files below the folder, to see that none is made.
std::set<std::string> FilesBelow(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    names.insert(entry.path());
  return names;
}

TEST_F(RightsTest, AnOperatorOfSomeIndexesNamesNoFileBeyondTheirFolder) {
  const std::string own = folder_ / "a", index = own + "/main.hmann";
  std::filesystem::create_directories(own);
  std::filesystem::copy_file(CosineIndex(), index);
  ServerOptions options = LoopbackOptions({{"tenant-a", index}});
  options.tokens = WriteTokens("");
  server_ = *Server::Start(options);
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  client::Client keeper = Connected("keeper"), operates = Connected("operator");
  const std::string there = folder_.Write("there.hmann", "not an index");
  folder_.Write("ab", "beside");
  const std::set<std::string> before = FilesBelow(folder_.path());
  std::vector<absl::Status> denied;
  for (const std::string& path :
       {there, folder_ / "none", folder_ / "ab", own + "/../there.hmann", own + "/x/../../none",
        std::string("/etc/passwd"), std::string("/"), std::string("../x"), std::string("x")}) {
    denied.push_back(keeper.Swap("tenant-a", path).status());
    denied.push_back(keeper.Swap("tenant-a", "", {}, {.queries = path}).status());
    denied.push_back(keeper.Swap("tenant-a", "", {}, {.groundtruth = path}).status());
    denied.push_back(keeper.Load("tenant-a", path).status());
    denied.push_back(keeper.Load("tenant-a", index, {}, {}, {.queries = path}).status());
    for (const char* tier : {"nvme:", "mapped:", "dax:", "other:"}) {
      const std::string named = absl::StrCat(tier, path);
      denied.push_back(keeper.Load("tenant-a", index, {.slow = named}).status());
      denied.push_back(keeper.Load("tenant-a", index, {.fast = named}).status());
    }
  }
  for (const absl::Status& status : denied) {
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
    EXPECT_EQ(Reason(status), "PATH_NOT_PERMITTED") << status;
    EXPECT_EQ(status.message(), denied[0].message()) << "it would tell what is there";
  }
  EXPECT_EQ(FilesBelow(folder_.path()), before);
  // Within the folder of its index, an operator learns what there is.
  EXPECT_EQ(keeper.Swap("tenant-a", index).status(), absl::OkStatus());
  EXPECT_EQ(keeper.Swap("tenant-a", own + "/none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(keeper.Unload("tenant-a"), absl::OkStatus());
  EXPECT_EQ(keeper.Load("tenant-a", index, {.slow = "mapped:" + own + "/copy"}).status(),
            absl::OkStatus());
  // An operator of all names what it likes.
  EXPECT_EQ(operates.Load("more", CosineIndex()).status(), absl::OkStatus());
  EXPECT_NE(Reason(operates.Swap("more", there).status()), "PATH_NOT_PERMITTED");
}

TEST_F(RightsTest, AStreamEndsWithTheRightToIt) {
  const absl::Status removed = EndOfStream("");
  EXPECT_EQ(removed.code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(Reason(removed), "TOKEN_UNKNOWN");
  EXPECT_EQ(Reason(Ask("tenant-a")), "TOKEN_UNKNOWN");
}

TEST_F(RightsTest, AStreamEndsWithTheRightToItsIndex) {
  const absl::Status narrowed = EndOfStream("read indexes=tenant-b");
  EXPECT_EQ(narrowed.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Reason(narrowed), "INDEX_NOT_PERMITTED");
  EXPECT_EQ(Ask("tenant-b"), absl::OkStatus());
}

TEST_F(RightsTest, AStreamEndsWithItsToken) {
  const std::string soon =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now() + absl::Seconds(2), absl::UTCTimeZone());
  // It ends without another change of the file.
  const absl::Status expired = EndOfStream(absl::StrCat("read until=", soon));
  EXPECT_EQ(expired.code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(Reason(expired), "TOKEN_EXPIRED");
  EXPECT_EQ(Reason(Ask("tenant-a")), "TOKEN_EXPIRED");
  EXPECT_EQ(Reason(reader_->List().status()), "TOKEN_EXPIRED");
}

TEST_F(RightsTest, AStreamMayNameOtherIndexesWithinTheRights) {
  const auto stub = v1::Search::NewStub(ChannelTo(server_->address()));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer reader");
  const auto stream = stub->SearchStream(&context);
  const auto send = [&](std::uint64_t id, const std::string& index) {
    v1::SearchStreamRequest request;
    request.set_id(id);
    request.mutable_search()->set_index(index);
    const auto query = SampleQueries(0, 1);
    request.mutable_search()->mutable_query()->set_raw(query.data(), query.size());
    request.mutable_search()->mutable_options()->set_k(3);
    EXPECT_TRUE(stream->Write(request));
  };
  send(1, "tenant-a");
  send(2, "tenant-b");
  send(3, "tenant-z");
  send(4, "other");
  std::vector<std::string> ends(4);
  v1::SearchStreamResponse response;
  while (stream->Read(&response)) {
    ASSERT_LE(response.id(), 3u);
    ends[response.id()] = response.has_answer() ? "answer" : response.failure().message();
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(ends, ElementsAre("", "answer", "answer", HasSubstr("none of that name")));
}

}  // namespace
}  // namespace hmann::server
