// Clients that flood the server. It stays within its bounds and answers the calls of
// others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/attack.h"
#include "tests/idle_connections.h"

namespace hmann {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class FloodTest : public AttackTest {};
INSTANTIATE_TEST_SUITE_P(Over, FloodTest,
                         testing::Values(RawHttp2::Over::kPlaintext, RawHttp2::Over::kTls), NameOf);

TEST_P(FloodTest, CallsThatAreBegunAndLeftAlone) {
  ServerProgram server(Index(), Flags({}));
  {
    const Others others(server.address(), CaFile());
    const Memory memory(server.program().pid());
    int begun = 0, closed = 0;
    const int most = Soaks() ? 200'000 : 20'000;
    while (begun < most) {
      const RawHttp2 attacker(server.address(), GetParam());
      bool open = attacker.Send(RawHttp2::Preface());
      for (std::uint32_t stream = 1; open && begun < most; stream += 200) {
        std::string calls;
        for (std::uint32_t i = 0; i < 100; ++i) calls += RawHttp2::Headers(stream + 2 * i);
        open = attacker.Send(calls);
        begun += 100;
      }
      closed += attacker.IsClosedByServer() ? 1 : 0;
    }
    EXPECT_GT(closed, 0);
    memory.ExpectBounded();
    memory.ExpectGivenBack();
  }
  server.program().Signal(SIGTERM);
  const Outcome ended = server.program().Wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("(streams)"));
}

TEST_P(FloodTest, CallsThatAreBegunAndCancelled) {
  ServerProgram server(Index(), Flags({}));
  {
    const Others others(server.address(), CaFile());
    const Memory memory(server.program().pid());
    const auto end = std::chrono::steady_clock::now() + (Soaks() ? 60s : 5s);
    while (std::chrono::steady_clock::now() < end) {
      const RawHttp2 attacker(server.address(), GetParam());
      bool open = attacker.Send(absl::StrCat(RawHttp2::Preface(), RawHttp2::SettingsAck()));
      for (std::uint32_t stream = 1; open && std::chrono::steady_clock::now() < end;
           stream += 100) {
        std::string calls;
        for (std::uint32_t i = 0; i < 50; ++i)
          calls += RawHttp2::Headers(stream + 2 * i) + RawHttp2::Reset(stream + 2 * i);
        open = attacker.Send(calls);
      }
    }
    // The goal is 64 MiB, but the guard acts later if other processes want the cores too.
    memory.ExpectBounded(2 * kMostGrowth);
    memory.ExpectGivenBack();
  }
  server.program().Signal(SIGTERM);
  const Outcome ended = server.program().Wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.err, testing::AnyOf(HasSubstr("(cancels)"), HasSubstr("(streams)")));
}

TEST_P(FloodTest, CallsThatAreCancelledByTheHundredAndOneAfterTheOther) {
  ServerProgram server(Index(), Flags({"--max-cancels", "100"}), FaultyHmannProgram());
  {
    const Others others(server.address(), CaFile());
    const RawHttp2 attacker(server.address(), GetParam());
    bool open = attacker.Send(absl::StrCat(RawHttp2::Preface(), RawHttp2::SettingsAck()));
    const auto end = std::chrono::steady_clock::now() + 60s;
    for (std::uint32_t stream = 1; open && std::chrono::steady_clock::now() < end; stream += 2) {
      open = attacker.Send(RawHttp2::Headers(stream) + RawHttp2::Reset(stream));
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_FALSE(open);
  }
  server.program().Signal(SIGTERM);
  EXPECT_THAT(server.program().Wait().err, HasSubstr("(cancels)"));
}

TEST_P(FloodTest, ConnectionsThatSayNothingOrHalfARequestEnd) {
  ServerProgram server(Index(),
                       Flags({"--handshake-timeout", "300ms", "--request-timeout", "300ms",
                              "--idle-timeout", "300ms"}),
                       FaultyHmannProgram());
  const Others others(server.address(), CaFile());
  const RawHttp2 silent(server.address(), GetParam());
  EXPECT_TRUE(silent.IsClosedByServer());
  const RawHttp2 idle(server.address(), GetParam());
  EXPECT_TRUE(idle.Send(absl::StrCat(RawHttp2::Preface(), RawHttp2::SettingsAck())));
  EXPECT_TRUE(idle.IsClosedByServer());
  const RawHttp2 half(server.address(), GetParam());
  // The frame promises a message of 64 bytes, and one byte of it arrives.
  const std::string_view begun("\0\0\0\0\x40\x0a", 6);
  EXPECT_TRUE(half.Send(absl::StrCat(RawHttp2::Preface(), RawHttp2::SettingsAck(),
                                     RawHttp2::Headers(1), RawHttp2::Data(1, begun))));
  EXPECT_TRUE(half.IsClosedByServer());
}

TEST_P(FloodTest, OneAddressHasSoManyConnectionsAndNoMore) {
  ServerProgram server(Index(), Flags({"--max-connections-per-peer", "20"}));
  {
    client::Client before = Connected(server.address(), CaFile());
    const IdleConnections held(server.address(), 20);
    EXPECT_TRUE(held.LastIsRefused());
    EXPECT_TRUE(before.Describe("sample", {.deadline = 60s}).ok());
  }
  Connected(server.address(), CaFile());
}

int Accepted(const ServerProgram& server) {
  const std::string page = Page(server.http(), "/metrics"),
                    name = "\nhmann_connections_accepted_total ";
  EXPECT_THAT(page, HasSubstr(name));
  const std::string rest = page.substr(page.find(name) + name.size());
  int taken = 0;
  EXPECT_TRUE(absl::SimpleAtoi(rest.substr(0, rest.find('\n')), &taken));
  return taken;
}

TEST_P(FloodTest, ConnectionsThatWereLeftWhileTheyWaitedAreNotTaken) {
  ServerProgram server(Index(), Flags({"--http", "127.0.0.1:0"}));
  server.program().Signal(SIGSTOP);
  { const IdleConnections left(server.address(), 200); }
  server.program().Signal(SIGCONT);
  Connected(server.address(), CaFile());
  EXPECT_LT(Accepted(server), 20) << "of 201";
}

/// Begins and cancels calls until the server closes the connection.
void Misuse(const std::string& address, RawHttp2::Over over) {
  const RawHttp2 attacker(address, over);
  bool open = attacker.Send(absl::StrCat(RawHttp2::Preface(), RawHttp2::SettingsAck()));
  for (std::uint32_t stream = 1; open; stream += 2)
    open = attacker.Send(RawHttp2::Headers(stream) + RawHttp2::Reset(stream));
}

TEST_P(FloodTest, ConnectionsThatWaitCountForTheirAddress) {
  ServerProgram server(Index(),
                       Flags({"--max-connections-per-peer", "20", "--max-cancels", "100",
                              "--handshake-timeout", "3600s"}),
                       FaultyHmannProgram());
  Misuse(server.address(), GetParam());
  const IdleConnections waiting(server.address(), 60);
  EXPECT_TRUE(waiting.LastIsRefused());
}

/// Of 20 connections of an address, those that are taken within 600 ms of its misuse.
/// None waits for longer if the address is trusted.
int TakenAfterMisuse(const ServerProgram& server, RawHttp2::Over over) {
  Misuse(server.address(), over);
  const int before = Accepted(server);
  const IdleConnections waiting(server.address(), 20);
  std::this_thread::sleep_for(600ms);
  return Accepted(server) - before;
}

TEST_P(FloodTest, AfterMisuseOnlyCallsWithARightOpenTheAddress) {
  const std::string tokens = *folder_ / "tokens", token = *folder_ / "token";
  WriteFile(tokens, "4b4254175bdee9907979988b5bd4bbffe83ad5e8e4280c32e16f42bbc9afe11f read\n");
  WriteFile(token, "a-secret-token");
  ServerProgram server(Index(),
                       Flags({"--http", "127.0.0.1:0", "--max-cancels", "100", "--tokens", tokens}),
                       FaultyHmannProgram());
  // A round may come too late on a busy machine.
  const auto any_of = [&](int least, int most) {
    for (int round = 0; round < 20; ++round) {
      const int taken = TakenAfterMisuse(server, GetParam());
      if (taken >= least && taken <= most) return true;
    }
    return false;
  };
  const auto list = [&](const std::string& token_file) {
    auto client = *client::Client::Connect(
        server.address(),
        {.own_connection = true, .retry = false, .ca_file = CaFile(), .token_file = token_file});
    const absl::Status status = client.List({.deadline = 60s}).status();
    std::this_thread::sleep_for(300ms);  // the guard sees the answer
    return status;
  };
  EXPECT_TRUE(absl::IsUnauthenticated(list("")));
  EXPECT_TRUE(any_of(0, 4)) << "one per 250 ms";
  absl::Status listed;
  do {
    listed = list(token);
  } while (absl::IsUnavailable(listed));  // it waited for its turn for too long
  EXPECT_EQ(listed, absl::OkStatus());
  EXPECT_TRUE(any_of(20, 20)) << "all at once";
}

TEST_P(FloodTest, TwoThousandConnectionsWhereAThousandDescriptorsAre) {
  constexpr int kConnections = 2000;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kConnections + 100) GTEST_SKIP() << "ulimit -Hn is " << limit.rlim_max;
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ServerProgram server(Index(), Flags({"--max-connections-per-peer", "5000"}));
  client::Client before = Connected(server.address(), CaFile());
  constexpr rlimit kFew = {1024, 1024};
  ASSERT_EQ(prlimit(server.program().pid(), RLIMIT_NOFILE, &kFew, nullptr), 0);
  {
    const IdleConnections held(server.address(), kConnections);
    EXPECT_TRUE(held.LastIsRefused());
    EXPECT_TRUE(before.Describe("sample", {.deadline = 60s}).ok());
  }
  client::Client after = Connected(server.address(), CaFile());
  EXPECT_TRUE(after.Search("sample", client::Vectors::Raw(FirstQuery()), {}).ok());
}

}  // namespace
}  // namespace hmann
