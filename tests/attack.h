/// For tests only: a server under attack, and its other clients.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/raw_http2.h"
#include "tests/server_program.h"

namespace hmann {

/// The most memory that an attack may cost a server.
inline constexpr std::int64_t kMostGrowth = std::int64_t{64} << 20;

/// A field of /proc/PID/status, in bytes.
inline std::int64_t StatusBytes(pid_t pid, const std::string& field) {
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

/// Searches continuously; no search may fail. Prints their latency.
class Others {
 public:
  explicit Others(const std::string& address, const std::string& ca_file = "")
      : client_(Connected(address, ca_file)) {
    for (int i = 0; i < 200; ++i) Search();
    quiet_ = std::exchange(took_, {});
    thread_ = std::thread([this] {
      do {
        Search();
      } while (!stop_);
    });
  }
  ~Others() {
    stop_ = true;
    thread_.join();
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
    const absl::Status status = client_
                                    .Search("sample", client::Vectors::Raw(query_), {},
                                            {.deadline = std::chrono::seconds(60)})
                                    .status();
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

/// The memory that the server has taken at most since construction, and what it keeps.
class Memory {
 public:
  explicit Memory(pid_t pid) : pid_(pid) {
    std::ofstream(absl::StrCat("/proc/", pid, "/clear_refs")) << "5";  // the peak begins anew
    before_ = StatusBytes(pid, "VmRSS");
  }
  void ExpectBounded(std::int64_t most = kMostGrowth) const {
    const std::int64_t growth = StatusBytes(pid_, "VmHWM") - before_;
    std::cout << "the server took at most " << (growth >> 20) << " MiB more than before\n";
    EXPECT_LE(growth, most) << "of " << before_;
  }
  void ExpectGivenBack() const {
    constexpr std::int64_t kKept = std::int64_t{16} << 20;
    for (int i = 0; i < 600 && StatusBytes(pid_, "VmRSS") - before_ > kKept; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_LE(StatusBytes(pid_, "VmRSS") - before_, kKept) << "of " << before_;
  }

 private:
  const pid_t pid_;
  std::int64_t before_ = 0;
};

/// Tests over an index of the sample and a certificate.
class AttackTest : public testing::TestWithParam<RawHttp2::Over> {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TestFolder("attack");
    MakeCertificate(*folder_);
    const Outcome built = RunProgram(
        {HmannProgram(), "build", "--base", "datasets/sample/base.u8bin", "--out", Index()});
    ASSERT_EQ(built.exit_code, 0) << built.err;
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string Index() { return *folder_ / "sample.hmann"; }

  static bool IsTls() { return GetParam() == RawHttp2::Over::kTls; }
  /// `more`, and the flags that a server of the test's kind needs.
  static std::vector<std::string> Flags(std::vector<std::string> more) {
    if (IsTls()) {
      more.insert(more.end(),
                  {"--tls-cert", *folder_ / "cert.pem", "--tls-key", *folder_ / "key.pem"});
    }
    return more;
  }
  static std::string CaFile() { return IsTls() ? *folder_ / "cert.pem" : ""; }

  static inline TestFolder* folder_ = nullptr;
};

inline std::string NameOf(const testing::TestParamInfo<RawHttp2::Over>& over) {
  return over.param == RawHttp2::Over::kTls ? "Tls" : "Plaintext";
}

}  // namespace hmann
