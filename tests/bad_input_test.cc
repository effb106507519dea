// Input that no well-behaved client sends, frame by frame. The server refuses or bounds
// each one, and meanwhile answers every call of another client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/attack.h"

namespace hmann {
namespace {

using namespace std::chrono_literals;
using std::string_view_literals::operator""sv;
using H = RawHttp2;

/// The fate of the connection.
enum End {
  kCloses,   ///< at once
  kAnswers,  ///< and stays open
  kStays,
};

struct BadInput {
  const char* name;
  std::string bytes;
  End end;
  std::string status = {};  ///< grpc-status of the answer
};

/// Bytes after preface and settings.
std::string After(std::string_view bytes) {
  return absl::StrCat(H::Preface(), H::SettingsAck(),
                      absl::string_view(bytes.data(), bytes.size()));
}

std::string Repeated(std::string_view bytes, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += bytes;
  return out;
}

/// A field of a protobuf message.
std::string Field(int number, std::string_view bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  std::size_t length = bytes.size();
  for (; length >= 128; length >>= 7) out += static_cast<char>(length % 128 + 128);
  out += static_cast<char>(length);
  return out += bytes;
}

/// The prefix of a message: a flag and its length.
std::string Promise(std::uint32_t bytes, std::uint64_t flag = 0) {
  return H::Big(flag << 32 | bytes, 5);
}

std::vector<BadInput> NoHttp2() {
  return {
      {"nonsense", Repeated("\x16\x03 nonsense \xff\x00"sv, 500), kCloses},
      {"HTTP/1", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", kCloses},
      {"HTTP/1 upgrade", "POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", kCloses},
      {"preface with a wrong end", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", kCloses},
      {"zeros", std::string(100'000, '\0'), kCloses},
  };
}

std::vector<BadInput> Frames() {
  const auto after = [](const std::string& frame) { return After(H::Headers(1) + frame); };
  const std::string first = H::Headers(1).substr(9);
  const auto block = [](std::string_view bytes) {
    return After(H::Frame(H::kHeaders, H::kEndHeaders, 1, bytes));
  };
  return {
      {"no settings", absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", H::Ping()), kCloses},
      {"a frame of 16 MiB", After("\xff\xff\xff\x00\x00\x00\x00\x00\x01"sv), kCloses},
      {"an unknown type", After(H::Frame(99, 0, 0, "what")), kStays},
      {"half a setting", After(H::Frame(H::kSettings, 0, 0, "abc")), kCloses},
      {"settings of a stream", After(H::Frame(H::kSettings, 0, 1, "")), kCloses},
      {"windows of 4 GiB", After(H::Frame(H::kSettings, 0, 0, "\0\4\xff\xff\xff\xff"sv)), kCloses},
      {"frames of 1 byte", After(H::Frame(H::kSettings, 0, 0, "\0\5\0\0\0\1"sv)), kCloses},
      {"ack with a payload", After(H::Frame(H::kSettings, H::kAck, 0, "abcdef")), kCloses},
      {"ping of 3 bytes", After(H::Frame(H::kPing, 0, 0, "abc")), kCloses},
      {"window of 3 bytes", After(H::Frame(H::kWindowUpdate, 0, 0, "abc")), kCloses},
      {"window opened by 0", After(H::Frame(H::kWindowUpdate, 0, 0, H::Big(0, 4))), kCloses},
      {"window beyond 2 GiB",
       After(Repeated(H::Frame(H::kWindowUpdate, 0, 0, "\x7f\xff\xff\xff"), 3)), kStays},
      {"reset of 3 bytes", after(H::Frame(H::kReset, 0, 1, "abc")), kCloses},
      {"goaway of 3 bytes", After(H::Frame(H::kGoAway, 0, 0, "abc")), kCloses},
      {"push promise", after(H::Frame(H::kPushPromise, H::kEndHeaders, 1, H::Big(2, 4))), kStays},
      {"priority of 3 bytes", After(H::Frame(H::kPriority, 0, 1, "abc")), kStays},
      {"data of no stream", After(H::Data(0, "data")), kStays},
      {"data of an idle stream", After(H::Data(7, "data")), kStays},
      {"headers of stream 0", After(H::Frame(H::kHeaders, H::kEndHeaders, 0, first)), kStays},
      {"headers of an even stream", After(H::Frame(H::kHeaders, H::kEndHeaders, 2, first)), kStays},
      {"padding beyond its frame", after(H::Frame(H::kData, H::kPadded, 1, "\xff data")), kStays},
      {"continuation of nothing", After(H::Frame(H::kContinuation, H::kEndHeaders, 1, "")),
       kCloses},
      {"headers cut in two", After(H::Frame(H::kHeaders, 0, 1, "\x83\x86") + H::Ping()), kCloses},
      {"HPACK: index beyond the table", block("\xff\xff\xff\x7f"), kCloses},
      {"HPACK: a number without an end", block(Repeated("\xff", 40)), kCloses},
      {"HPACK: a text beyond its block", block("\x40\x7f\xff\xff\x7f"), kCloses},
      {"HPACK: a table of 1 GB", block("\x3f\xe1\xff\xff\xff\x03"), kCloses},
  };
}

/// Calls that get an error and do not disturb other calls on their connection.
std::vector<BadInput> Calls() {
  const auto data = [](std::string_view bytes) {
    return After(H::Headers(1) + H::Data(1, bytes, H::kEndStream));
  };
  return {
      {"half a message", data(Promise(100) + "half"), kAnswers, "3"},
      {"no message", data(""), kAnswers, "3"},
      {"compressed, and nobody said how", data(Promise(4, 1) + "data"), kAnswers, "3"},
      {"truncated protobuf", After(H::Request(1, "\x0a\x7f")), kAnswers, "3"},
      {"protobuf of an endless number", After(H::Request(1, Repeated("\xff", 64))), kAnswers, "3"},
      {"an empty request", After(H::Request(1, "")), kAnswers, "5"},
  };
}

/// A client that never stops: `begin`, then `more` forever. The server closes the
/// connection or stops reading.
struct Flood {
  const char* name;
  std::string begin;
  std::function<std::string(std::uint32_t)> more;
  bool closes = true;
};

std::vector<Flood> Floods() {
  const std::string call = H::Headers(1);
  // The headers of a call without an end; its 16 kB repeat endlessly.
  std::string open = call;
  open[4] = 0;
  const auto same = [](const std::string& bytes, int times) {
    return [bytes = Repeated(bytes, times)](std::uint32_t) { return bytes; };
  };
  const std::string large = H::Kept("x", std::string(3900, 'a'));
  return {
      {"HPACK bomb",
       After(H::Frame(H::kHeaders, H::kEndHeaders, 1, absl::StrCat(call.substr(9), large))),
       [](std::uint32_t i) {
         // Each byte stands for 3,900.
         return H::Frame(H::kHeaders, H::kEndHeaders, 2 * i + 3, std::string(16'000, '\xbe'));
       }},
      {"continuations", After(open),
       same(H::Frame(H::kContinuation, 0, 1, Repeated("\0\1a\1b"sv, 3000)), 1)},
      {"settings", After(""), same(H::Frame(H::kSettings, 0, 0, ""), 1000), false},
      {"pings", After(""), same(H::Ping(), 1000)},
      {"priorities", After(""), same(H::Frame(H::kPriority, 0, 1, "\0\0\0\0\1"sv), 1000)},
      {"empty data", After(call), same(H::Data(1, ""), 1000)},
      {"windows", After(call), same(H::Frame(H::kWindowUpdate, 0, 1, H::Big(1, 4)), 1000)},
      {"resets of no stream", After(""), same(H::Reset(1), 1000)},
      {"unknown frames", After(""), same(H::Frame(99, 0, 0, std::string(16'000, 'x')), 1)},
  };
}

class BadInputTest : public AttackTest {
 protected:
  /// Sends each input on its own connection. A connection closes because of its input,
  /// since no time limit is near.
  static void Try(const std::vector<BadInput>& inputs) {
    ServerProgram server(Index(),
                         Flags({"--handshake-timeout", "3600s", "--request-timeout", "3600s",
                                "--idle-timeout", "3600s", "--keepalive", "3600s"}),
                         FaultyHmannProgram());
    const Others others(server.address(), CaFile());
    const Memory memory(server.program().pid());
    for (const BadInput& input : inputs) {
      SCOPED_TRACE(input.name);
      const RawHttp2 attacker(server.address(), GetParam());
      attacker.Send(input.bytes);
      switch (input.end) {
        case kCloses:
          EXPECT_TRUE(attacker.IsClosedByServer());
          break;
        case kAnswers:
          EXPECT_TRUE(attacker.Receives(H::Kept("grpc-status", input.status)));
          [[fallthrough]];
        case kStays:
          EXPECT_TRUE(attacker.Answers());
          break;
      }
    }
    memory.ExpectBounded();
    memory.ExpectGivenBack();
  }
};
INSTANTIATE_TEST_SUITE_P(Over, BadInputTest,
                         testing::Values(RawHttp2::Over::kPlaintext, RawHttp2::Over::kTls), NameOf);

TEST_P(BadInputTest, WhatIsNoHttp2) { Try(NoHttp2()); }
TEST_P(BadInputTest, FramesThatNobodySends) { Try(Frames()); }
TEST_P(BadInputTest, CallsThatAreNone) { Try(Calls()); }

TEST_P(BadInputTest, FloodsOfFrames) {
  constexpr std::uint32_t kMost = 5000;
  ServerProgram server(Index(), Flags({}));
  const Others others(server.address(), CaFile());
  const Memory memory(server.program().pid());
  for (const Flood& flood : Floods()) {
    SCOPED_TRACE(flood.name);
    const RawHttp2 attacker(server.address(), GetParam());
    EXPECT_TRUE(attacker.Send(flood.begin));
    std::uint32_t sent = 0;
    while (sent < kMost && attacker.Send(flood.more(sent))) ++sent;
    EXPECT_LT(sent, kMost);
    if (flood.closes) {
      EXPECT_TRUE(attacker.IsClosedByServer());
    }
  }
  // Headers without an end belong to no call that waits for a large request, so they may
  // take 2.8 MiB. Many short ones cost gRPC some twenty times their size.
  memory.ExpectBounded(4 * kMostGrowth);
  memory.ExpectGivenBack();
}

TEST_P(BadInputTest, AMessageOf1GbIsNotWaitedFor) {
  ServerProgram server(Index(), Flags({"--request-timeout", "3600s"}), FaultyHmannProgram());
  const Others others(server.address(), CaFile());
  const Memory memory(server.program().pid());
  const RawHttp2 attacker(server.address(), GetParam());
  constexpr std::uint32_t kGb = 1 << 30;
  EXPECT_TRUE(attacker.Send(After(H::Headers(1))));
  EXPECT_FALSE(attacker.SendLong(1, Promise(kGb), kGb)) << "its stream is reset";
  EXPECT_TRUE(attacker.Answers()) << "a large request ends one call, not others beside it";
  memory.ExpectBounded();
  memory.ExpectGivenBack();
}

TEST_P(BadInputTest, AStreamOfWritesThatStopsInAMessage) {
  const TestFolder folder("stalled_stream");
  const std::string live = folder / "c.live";
  ASSERT_EQ(Hmann({"create", live, "--from", Index()}).exit_code, 0);
  ServerProgram server(live, Flags({"--request-timeout", "2s"}), FaultyHmannProgram());
  const Others others(server.address(), CaFile());
  client::Client client = Connected(server.address(), CaFile());
  const auto put = [&](std::uint64_t label) {
    return client.Put("sample", {.labels = {{label}}}, client::Vectors::Raw(FirstQuery()));
  };
  const RawHttp2 attacker(server.address(), GetParam());
  EXPECT_TRUE(attacker.Send(After(H::Headers(1, "/hmann.v1.Write/WriteStream") +
                                  H::Data(1, Promise(1000) + Field(2, "half of a batch")))));
  for (std::uint64_t label = 20'000; label < 20'020; ++label)
    EXPECT_TRUE(put(label).ok()) << "others write";
  EXPECT_TRUE(attacker.IsClosedByServer());
  EXPECT_EQ(client.Describe("sample")->n, 10'020u) << "nothing of the half is there";
  EXPECT_TRUE(put(30'000).ok());
}

TEST_P(BadInputTest, AReplyThatNobodyTakesIsGivenUp) {
  ServerProgram server(Index(), Flags({"--reply-timeout", "300ms"}), FaultyHmannProgram());
  const Others others(server.address(), CaFile());
  const std::string query = ReadFile(kQueries).substr(8, 128),
                    request = Field(1, "sample") + Field(2, Field(1, query)) + Field(3, "\x08\x0a");
  const RawHttp2 attacker(server.address(), GetParam());
  // The window of each of its streams is zero.
  EXPECT_TRUE(attacker.Send(H::Preface("\0\4\0\0\0\0"sv) + H::SettingsAck()));
  EXPECT_TRUE(attacker.Send(H::Request(1, request)));
  EXPECT_TRUE(attacker.Receives(H::Frame(H::kReset, 0, 1, H::Big(0, 4))));
  EXPECT_TRUE(attacker.Answers());
}

TEST_P(BadInputTest, ANameOf1MbIsNotFound) {
  ServerProgram server(Index(), Flags({}));
  client::Client client = Connected(server.address(), CaFile());
  const std::string name(1 << 20, 'x');
  EXPECT_EQ(client.Search(name, client::Vectors::Raw(FirstQuery()), {}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(client.Describe(name).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hmann
