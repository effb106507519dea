// A server of a collection in a small container (needs root): 64 writers, 32 streams,
// wide searches, bombs and messages that are too large take no more memory than there is,
// and what was acknowledged is there, also if it comes back with a journal over its
// limit. With HMANN_SOAK for ten minutes, with 200,000 rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "eval/memory_group.h"
#include "index/base/units.h"
#include "tests/server_program.h"

namespace hmann {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kContainerDim = 128;
/// Rows of a write. Those of calls have attributes, and are 3.9 MB together. All writers
/// together have 190,192.
constexpr std::uint32_t kRowsOfCall = 2800, kRowsOfStream = 256;
constexpr int kWriters = 64, kStreams = 32, kWide = 16, kHuge = 4, kBombs = 4;

void WriteBase(const std::string& path, std::uint32_t rows) {
  std::mt19937 random(1);
  std::string bytes(8 + std::size_t{rows} * kContainerDim, '\0');
  std::memcpy(bytes.data(), &rows, sizeof(rows));
  std::memcpy(bytes.data() + 4, &kContainerDim, sizeof(kContainerDim));
  for (std::size_t i = 8; i < bytes.size(); ++i) bytes[i] = static_cast<char>(random());
  WriteFile(path, bytes);
}

/// Half a core for a group of processes (cgroup v1).
class HalfACore {
 public:
  HalfACore() : folder_(absl::StrCat("/sys/fs/cgroup/cpu/hmann-", getpid())) {
    std::error_code error;
    made_ = std::filesystem::create_directory(folder_, error);
    if (!made_) return;
    WriteFile(folder_ + "/cpu.cfs_quota_us", "50000");
    WriteFile(folder_ + "/cpu.shares", "100000");  // clients on this machine do not starve it
  }
  ~HalfACore() {
    if (made_) rmdir(folder_.c_str());
  }
  HalfACore(const HalfACore&) = delete;
  HalfACore& operator=(const HalfACore&) = delete;
  bool made() const { return made_; }
  std::string procs() const { return folder_ + "/cgroup.procs"; }

 private:
  const std::string folder_;
  bool made_ = false;
};

/// Replaces the vectors of its own labels from `first` on, again and again, by ones that
/// tell the turn.
class Writer {
 public:
  Writer(const std::string& address, std::uint64_t first, std::uint32_t rows)
      : client_(*client::Client::Connect(address, {.own_connection = true, .retry = false})),
        rows_(rows) {
    if (rows == kRowsOfCall)
      attributes_.assign(rows, absl::StrCat(R"({"a":")", std::string(1240, 'x'), R"("})"));
    labels_.resize(rows);
    std::iota(labels_.begin(), labels_.end(), first);
  }

  bool Call() {
    ++tried_;
    const absl::Status status =
        client_
            .Put("sample", {.labels = labels_}, client::Vectors::Raw(Rows(), rows_), attributes_,
                 {.deadline = 60s})
            .status();
    return Count(status);
  }
  /// `count` writes over a stream.
  void Stream(int count) {
    client::WriteStream stream = client_.OpenWrites("sample", {.deadline = 120s});
    std::thread receiver([&] {
      for (auto one = stream.Receive(); one.ok() && one->has_value(); one = stream.Receive())
        Count((*one)->written.status());
    });
    for (int i = 0; i < count; ++i) {
      ++tried_;
      if (!stream.Put(0, {.labels = labels_}, client::Vectors::Raw(Rows(), rows_)).ok()) break;
    }
    stream.DoneSending().IgnoreError();
    receiver.join();
  }

  std::uint64_t written() const { return written_; }
  int refused() const { return refused_; }
  /// The vectors are those of a turn that may be the last.
  void ExpectThere(client::Client& client) const {
    if (acknowledged_ == 0) return;
    const std::vector<std::uint64_t> some = {labels_.front(), labels_.back()};
    const auto found = client.Get("sample", some, {.deadline = 60s});
    ASSERT_TRUE(found.ok()) << found.status();
    for (const std::size_t at : {std::size_t{0}, std::size_t{kContainerDim}}) {
      const auto turn = static_cast<std::uint8_t>((*found)[at]);
      bool known = false;
      for (std::uint32_t t = acknowledged_; t <= tried_; ++t) known |= turn == t % 256;
      EXPECT_TRUE(known) << int{turn} << " of " << acknowledged_ << " to " << tried_;
    }
  }

 private:
  bool Count(const absl::Status& status) {
    if (status.ok()) {
      acknowledged_ = ++answered_ok_ + failed_;
      written_ += rows_;
      return true;
    }
    ++failed_;
    ++refused_;
    EXPECT_NE(status.code(), absl::StatusCode::kUnavailable) << status;
    return false;
  }
  std::span<const std::byte> Rows() {
    vectors_.assign(std::size_t{rows_} * kContainerDim, static_cast<std::byte>(tried_ % 256));
    return vectors_;
  }

  client::Client client_;
  const std::uint32_t rows_;
  std::vector<std::uint64_t> labels_;
  std::vector<std::byte> vectors_;
  std::vector<std::string> attributes_;
  std::uint32_t tried_ = 0, answered_ok_ = 0, failed_ = 0, acknowledged_ = 0;
  std::atomic<std::uint64_t> written_{0};
  std::atomic<int> refused_{0};
};

/// Attributes that unfold to more than they are: lists in lists, and many new names.
std::string Bomb(int number) {
  if (number % 2 == 0)
    return absl::StrCat(R"({"a":)", std::string(100'000, '['), std::string(100'000, ']'), "}");
  std::string names = R"({"a":0)";
  for (int i = 0; i < 200'000; ++i) absl::StrAppend(&names, ",\"b", i, "\":0");
  return names + "}";
}

/// Asks for what is wide, too large or a bomb until `stop`.
void Ask(const std::string& address, int number, const std::atomic<bool>& stop) {
  auto client = *client::Client::Connect(address, {.own_connection = true, .retry = false});
  const std::vector<std::byte> row(kContainerDim), huge(20 << 20);
  const std::vector<std::string> bomb = {Bomb(number)};
  const std::vector<std::uint64_t> label = {199'999};
  client::SearchParams wide{.k = 10};
  wide.ef_l0 = 10'000;
  while (!stop) {
    absl::Status status;
    if (number < kWide) {
      status = client.Search("sample", client::Vectors::Raw(row), wide, {.deadline = 10s}).status();
    } else if (number < kWide + kHuge) {
      status = client.Search("sample", client::Vectors::Raw(huge), {}, {.deadline = 10s}).status();
    } else {
      const auto put = client.Put("sample", {.labels = label}, client::Vectors::Raw(row), bomb,
                                  {.deadline = 10s});
      status = put.status();
      EXPECT_FALSE(status.ok());
    }
    EXPECT_NE(status.code(), absl::StatusCode::kUnavailable) << status;
    std::this_thread::sleep_for(50ms);
  }
}

/// What many clients do to a server at once.
class Crowd {
 public:
  explicit Crowd(const std::string& address) : address_(address) {
    std::uint64_t first = 0;
    for (int i = 0; i < kWriters + kStreams; ++i) {
      const std::uint32_t rows = i < kWriters ? kRowsOfCall : kRowsOfStream;
      writers_.push_back(std::make_unique<Writer>(address, first, rows));
      first += rows;
      threads_.emplace_back([this, i] { Write(i, *writers_[static_cast<std::size_t>(i)]); });
    }
    for (int i = 0; i < kWide + kHuge + kBombs; ++i)
      threads_.emplace_back([this, i] { Ask(address_, i, stop_); });
  }
  ~Crowd() { Stop(); }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  std::uint64_t written() const {
    std::uint64_t sum = 0;
    for (const auto& writer : writers_) sum += writer->written();
    return sum;
  }
  int refused() const {
    int sum = 0;
    for (const auto& writer : writers_) sum += writer->refused();
    return sum;
  }
  void ExpectThere(client::Client& client) const {
    for (const auto& writer : writers_) writer->ExpectThere(client);
  }

 private:
  void Write(int number, Writer& writer) const {
    while (!stop_) {
      if (number >= kWriters) {
        writer.Stream(6);
      } else if (!writer.Call()) {
        std::this_thread::sleep_for(200ms);
      }
    }
  }

  const std::string address_;
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<Writer>> writers_;
  std::vector<std::thread> threads_;
};

/// A collection, and a script that starts hmann within both groups.
void Prepare(const TestFolder& folder, const std::vector<std::string>& groups) {
  WriteBase(folder / "base.u8bin", Soaks() ? 200'000 : 5'000);
  ASSERT_EQ(Hmann({"build", "--base", folder / "base.u8bin", "--out", folder / "i.hmann",
                   "--no-calibrate"})
                .exit_code,
            0);
  ASSERT_EQ(Hmann({"create", folder / "c.live", "--from", folder / "i.hmann"}).exit_code, 0);
  std::string script = "#!/bin/sh\n";
  for (const std::string& group : groups) absl::StrAppend(&script, "echo 0 >", group, " && ");
  WriteFile(folder / "inside.sh", absl::StrCat(script, "exec ", HmannProgram(), " \"$@\"\n"));
  std::filesystem::permissions(folder / "inside.sh", std::filesystem::perms::owner_all);
}

class Container : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Of, Container, testing::Values(256_MiB, 512_MiB));

TEST_P(Container, ManyWritersTakeNoMoreMemoryThanThereIs) {
  auto group = eval::MemoryGroup::Create("container", GetParam());
  if (!group.ok()) GTEST_SKIP() << group.status();
  const HalfACore half;
  if (!half.made()) GTEST_SKIP() << "no group of cgroup v1 for half a core can be made";
  const TestFolder folder("container");
  const std::string inside = folder / "inside.sh";
  Prepare(folder, {group->procs(), half.procs()});
  auto server =
      std::make_unique<ServerProgram>(folder / "c.live", std::vector<std::string>{}, inside);
  client::Client client = Connected(server->address());

  const auto seconds = Soaks() ? 600s : 8s,
             alone = Soaks() ? 200s : 3s;  // more than the delta takes at once
  Writer one(server->address(), 192'000, kRowsOfCall);
  for (const auto end = std::chrono::steady_clock::now() + alone;
       std::chrono::steady_clock::now() < end;) {
    if (!one.Call()) std::this_thread::sleep_for(200ms);
  }
  const double rate_alone = static_cast<double>(one.written()) / static_cast<double>(alone.count());
  Crowd crowd(server->address());
  std::this_thread::sleep_for(seconds);
  const double rate = static_cast<double>(crowd.written()) / static_cast<double>(seconds.count());
  crowd.Stop();
  std::printf("%.0f rows/s alone, %.0f beside others, %d refused\n", rate_alone, rate,
              crowd.refused());
  std::fflush(stdout);
  crowd.ExpectThere(client);
  one.ExpectThere(client);

  server->program().Signal(SIGKILL);
  const std::string log = server->program().Wait().err;
  if (HasFailure()) std::printf("%s", log.c_str());
  WriteFile(folder / "serve.toml", absl::StrCat("[index.sample]\nfile = \"", folder / "c.live",
                                                "\"\ndelta-memory = \"", GetParam() / 9, "\"\n"));
  server = std::make_unique<ServerProgram>(
      "", std::vector<std::string>{"--config", folder / "serve.toml"}, inside);
  client = *client::Client::Connect(server->address(), {.own_connection = true, .retry = false});
  ASSERT_TRUE(client.WaitReady("sample", {.deadline = 900s}).ok()) << "it merges first";
  crowd.ExpectThere(client);
  one.ExpectThere(client);
  Writer little(server->address(), 199'000, kRowsOfStream);
  while (!little.Call()) std::this_thread::sleep_for(500ms);  // it gets out by itself
  const eval::MemoryUse use = group->Use();
  std::printf("%llu MiB: at most %llu MiB\n", static_cast<unsigned long long>(GetParam() >> 20),
              static_cast<unsigned long long>(use.peak_bytes >> 20));
  EXPECT_EQ(use.out_of_memory_kills, 0u);
  EXPECT_GT(rate, 0);
  if (Soaks()) {
    EXPECT_GE(rate, rate_alone / 2);
  }
}

}  // namespace
}  // namespace hmann
