// Clients that do what no good client does: the server stays within its bounds, and the
// calls of others are answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/idle_connections.h"
#include "tests/raw_http2.h"
#include "tests/server_program.h"

namespace hmann {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

/// 64 MiB are wanted and kept on a machine that does nothing else; where others want the
/// cores, the guard comes later. Without it each flood here takes 240 MiB and more.
constexpr std::int64_t kMostGrowth = std::int64_t{160} << 20;

/// A field of /proc/PID/status, in bytes.
std::int64_t StatusBytes(pid_t pid, const std::string& field) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(absl::StrCat(field, ":"))) continue;
    std::int64_t kib = 0;
    EXPECT_TRUE(
        absl::SimpleAtoi(line.substr(field.size() + 1, line.size() - field.size() - 4), &kib));
    return kib << 10;
  }
  return 0;
}

class FloodTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TestFolder("flood");
    const Outcome built = RunProgram(
        {HmannProgram(), "build", "--base", "datasets/sample/base.u8bin", "--out", Index()});
    ASSERT_EQ(built.exit_code, 0) << built.err;
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string Index() { return *folder_ / "sample.hmann"; }

  static TestFolder* folder_;
};
TestFolder* FloodTest::folder_ = nullptr;

/// Searches all the time; none may fail. Says how long they took.
class Others {
 public:
  explicit Others(const std::string& address) : client_(Connected(address)) {
    for (int i = 0; i < 200; ++i) Search();
    quiet_ = std::exchange(took_, {});
    thread_ = std::thread([this] {
      while (!stop_) Search();
    });
  }
  ~Others() {
    stop_ = true;
    thread_.join();
    EXPECT_FALSE(took_.empty());
    EXPECT_EQ(failed_, absl::OkStatus());
    const auto p99_us = [](std::vector<std::chrono::nanoseconds>& took) {
      std::sort(took.begin(), took.end());
      return took[took.size() * 99 / 100].count() / 1000;
    };
    std::cout << took_.size() << " calls of others were answered, p99 " << p99_us(took_)
              << " us; before, p99 " << p99_us(quiet_) << " us\n";
  }
  Others(const Others&) = delete;
  Others& operator=(const Others&) = delete;

 private:
  void Search() {
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status =
        client_.Search("sample", client::Vectors::Raw(query_), {}, {.deadline = 60s}).status();
    failed_.Update(status);
    took_.push_back(std::chrono::steady_clock::now() - start);
  }

  const std::vector<std::byte> query_ = FirstQuery();
  client::Client client_;
  absl::Status failed_;
  std::vector<std::chrono::nanoseconds> quiet_, took_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// What the server has taken at most since this was made, and what it keeps.
class Memory {
 public:
  explicit Memory(pid_t pid) : pid_(pid) {
    std::ofstream(absl::StrCat("/proc/", pid, "/clear_refs")) << "5";  // the peak begins anew
    before_ = StatusBytes(pid, "VmRSS");
  }
  void ExpectBounded() const {
    const std::int64_t growth = StatusBytes(pid_, "VmHWM") - before_;
    std::cout << "the server took at most " << (growth >> 20) << " MiB more than before\n";
    EXPECT_LE(growth, kMostGrowth) << "of " << before_;
  }
  void ExpectGivenBack() const {
    constexpr std::int64_t kKept = std::int64_t{16} << 20;
    for (int i = 0; i < 600 && StatusBytes(pid_, "VmRSS") - before_ > kKept; ++i)
      std::this_thread::sleep_for(100ms);
    EXPECT_LE(StatusBytes(pid_, "VmRSS") - before_, kKept) << "of " << before_;
  }

 private:
  const pid_t pid_;
  std::int64_t before_ = 0;
};

TEST_F(FloodTest, CallsThatAreBegunAndLeftAlone) {
  ServerProgram server(Index(), {});
  {
    const Others others(server.address());
    const Memory memory(server.program().pid());
    int begun = 0, closed = 0;
    const int most = Soaks() ? 200'000 : 20'000;
    while (begun < most) {
      const RawHttp2 attacker(server.address());
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

TEST_F(FloodTest, CallsThatAreBegunAndCancelled) {
  ServerProgram server(Index(), {});
  {
    const Others others(server.address());
    const Memory memory(server.program().pid());
    const auto end = std::chrono::steady_clock::now() + (Soaks() ? 60s : 5s);
    while (std::chrono::steady_clock::now() < end) {
      const RawHttp2 attacker(server.address());
      bool open = attacker.Send(absl::StrCat(RawHttp2::Preface(), RawHttp2::SettingsAck()));
      for (std::uint32_t stream = 1; open && std::chrono::steady_clock::now() < end;
           stream += 100) {
        std::string calls;
        for (std::uint32_t i = 0; i < 50; ++i)
          calls += RawHttp2::Headers(stream + 2 * i) + RawHttp2::Reset(stream + 2 * i);
        open = attacker.Send(calls);
      }
    }
    memory.ExpectBounded();
    memory.ExpectGivenBack();
  }
  server.program().Signal(SIGTERM);
  const Outcome ended = server.program().Wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.err, testing::AnyOf(HasSubstr("(cancels)"), HasSubstr("(streams)")));
}

TEST_F(FloodTest, CallsThatAreCancelledByTheHundredAndOneAfterTheOther) {
  ServerProgram server(Index(), {"--max-cancels", "100"});
  {
    const Others others(server.address());
    const RawHttp2 attacker(server.address());
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

TEST_F(FloodTest, ConnectionsThatSayNothingOrHalfARequestEnd) {
  ServerProgram server(Index(), {"--handshake-timeout", "300ms", "--request-timeout", "300ms",
                                 "--idle-timeout", "300ms"});
  const Others others(server.address());
  const RawHttp2 silent(server.address());
  EXPECT_TRUE(silent.IsClosedByServer());
  const RawHttp2 idle(server.address());
  EXPECT_TRUE(idle.Send(absl::StrCat(RawHttp2::Preface(), RawHttp2::SettingsAck())));
  EXPECT_TRUE(idle.IsClosedByServer());
  const RawHttp2 half(server.address());
  // A message of 64 bytes is promised, and one byte of it comes.
  const std::string_view begun("\0\0\0\0\x40\x0a", 6);
  EXPECT_TRUE(half.Send(absl::StrCat(RawHttp2::Preface(), RawHttp2::SettingsAck(),
                                     RawHttp2::Headers(1), RawHttp2::Data(1, begun))));
  EXPECT_TRUE(half.IsClosedByServer());
}

TEST_F(FloodTest, OneAddressHasSoManyConnectionsAndNoMore) {
  ServerProgram server(Index(), {"--max-connections-per-peer", "20"});
  {
    client::Client before = Connected(server.address());
    const IdleConnections held(server.address(), 20);
    EXPECT_TRUE(held.LastIsRefused());
    EXPECT_TRUE(before.Describe("sample", {.deadline = 60s}).ok());
  }
  Connected(server.address());
}

TEST_F(FloodTest, TwoThousandConnectionsWhereAThousandDescriptorsAre) {
  constexpr int kConnections = 2000;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kConnections + 100) GTEST_SKIP() << "ulimit -Hn is " << limit.rlim_max;
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ServerProgram server(Index(), {"--max-connections-per-peer", "5000"});
  client::Client before = Connected(server.address());
  constexpr rlimit kFew = {1024, 1024};
  ASSERT_EQ(prlimit(server.program().pid(), RLIMIT_NOFILE, &kFew, nullptr), 0);
  {
    const IdleConnections held(server.address(), kConnections);
    EXPECT_TRUE(held.LastIsRefused());
    EXPECT_TRUE(before.Describe("sample", {.deadline = 60s}).ok());
  }
  client::Client after = Connected(server.address());
  EXPECT_TRUE(after.Search("sample", client::Vectors::Raw(FirstQuery()), {}).ok());
}

}  // namespace
}  // namespace hmann
