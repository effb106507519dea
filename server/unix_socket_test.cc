// A server that listens on a Unix socket path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using testing::HasSubstr;

ServerOptions At(const std::string& path) {
  ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}});
  options.listen = absl::StrCat("unix:", path);
  return options;
}

absl::Status Search(Served& served) {
  return served.client->Search("sift", client::Vectors::Raw(SampleQueries(0, 1)), {}).status();
}

/// Leaves a socket file without a listener.
void LeaveSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int left = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(left);
}

TEST(UnixSocketTest, AnswersAndIsGoneWithItsServer) {
  const TempFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/socket");
  {
    Served served(At(path));
    EXPECT_EQ(served.server->address(), absl::StrCat("unix:", path));
    for (int i = 0; i < 100; ++i) EXPECT_EQ(Search(served), absl::OkStatus());
    Served second_client(At(absl::StrCat(path, "2")));
    EXPECT_EQ(Search(second_client), absl::OkStatus());
    served.server->BeginDrain();
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ(Search(served), absl::OkStatus()) << "on the connection that there is";
  }
}

TEST(UnixSocketTest, HasTheRightsThatAreGivenWhateverTheUmask) {
  const TempFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/socket");
  const mode_t before = umask(0077);
  for (const int mode : {0666, 0660, 0600}) {
    ServerOptions options = At(path);
    options.socket_mode = mode;
    const auto server = Server::Start(options);
    struct stat found {};
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, static_cast<mode_t>(mode));
  }
  umask(before);
}

TEST(UnixSocketTest, AServerThatStopsLeavesTheSocketOfTheNext) {
  const TempFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/socket");
  auto old = *Server::Start(At(path));
  std::filesystem::remove(path);  // by a supervisor, say
  Served next(At(path));
  old.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(Search(next), absl::OkStatus());
}

TEST(UnixSocketTest, ServersThatStartAtTheSameMomentTakeTurns) {
  const TempFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/socket");
  SampleIndex();
  for (int round = 0; round < 10; ++round) {
    LeaveSocket(path);
    std::vector<absl::StatusOr<std::unique_ptr<Server>>> servers(3);
    std::vector<std::thread> starters;
    for (auto& server : servers)
      starters.emplace_back([&path, own = &server] { *own = Server::Start(At(path)); });
    for (std::thread& starter : starters) starter.join();
    int running = 0;
    for (const auto& server : servers) running += server.ok() ? 1 : 0;
    EXPECT_EQ(running, 1);
    servers.clear();
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

TEST(UnixSocketTest, ANameWithoutAFileIsRefused) {
  EXPECT_THAT(std::string(Server::Start(At("@name")).status().message()),
              HasSubstr("no permissions"));
  EXPECT_FALSE(std::filesystem::exists("@name"));
}

TEST(UnixSocketTest, TakesThePlaceOfOneThatWasKilledAndOfNobodyElse) {
  const TempFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/socket");
  LeaveSocket(path);
  Served served(At(path));
  EXPECT_EQ(Search(served), absl::OkStatus());
  const absl::Status taken = Server::Start(At(path)).status();
  EXPECT_THAT(std::string(taken.message()),
              HasSubstr(absl::StrCat("listen unix:", path, ": bind: Address already in use")));
  EXPECT_EQ(Search(served), absl::OkStatus());

  const std::string file = folder.Write("file", "not a socket");
  EXPECT_FALSE(Server::Start(At(file)).ok());
  EXPECT_EQ(std::filesystem::file_size(file), 12u);
}

TEST(UnixSocketTest, WhatCannotBeIsNamed) {
  EXPECT_THAT(std::string(Server::Start(At(std::string(200, 'x'))).status().message()),
              HasSubstr("at most 107 characters"));
  EXPECT_FALSE(Server::Start(At("/nowhere/socket")).ok());
  EXPECT_FALSE(Server::Start(At("")).ok());
}

TEST(UnixSocketTest, SoManyConnectionsAndNoMore) {
  const TempFolder folder;
  ServerOptions options = At(absl::StrCat(folder.path(), "/socket"));
  options.connections.connections_per_peer = 2;
  Served served(options);
  EXPECT_EQ(Search(served), absl::OkStatus());
  auto second = client::Client::Connect(served.server->address(), {.own_connection = true});
  EXPECT_TRUE(second->List().ok());
  auto third =
      client::Client::Connect(served.server->address(), {.own_connection = true, .retry = false});
  EXPECT_EQ(third->List().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Search(served), absl::OkStatus());
}

}  // namespace
}  // namespace hmann::server
