// The systemd unit of the package. Where systemd is not process 1, this test makes what
// the unit asks for by itself: the file system read-only but for the folders that the
// unit names, a private /tmp, a user of its own, and its capabilities.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "hmann/client.h"
#include "tests/server_program.h"

namespace hmann {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr char kUnit[] = "server/hmann.service";

/// The settings of the unit, the last of each name.
std::map<std::string, std::string> Unit() {
  std::map<std::string, std::string> settings;
  std::istringstream lines(ReadFile(kUnit));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (!line.starts_with('#') && equals != std::string::npos)
      settings[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return settings;
}

class ServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    const auto unit = Unit();
    ASSERT_EQ(unit.at("DynamicUser"), "yes");
    ASSERT_EQ(unit.at("ProtectSystem"), "strict");
    ASSERT_EQ(unit.at("PrivateTmp"), "yes");
    ASSERT_EQ(unit.at("AmbientCapabilities"), "CAP_LEASE");
    std::string writable;
    for (const auto& [key, below] :
         {std::pair("StateDirectory", "/var/lib/"), std::pair("RuntimeDirectory", "/run/")}) {
      if (unit.contains(key)) absl::StrAppend(&writable, " ", below, unit.at(key));
    }
    // VAR: what stays in /var/lib between two starts. As systemd does, a state folder
    // gets the user of the service if it does not have it.
    WriteFile(wrapper_, absl::StrReplaceAll(
                            R"(#!/bin/sh
exec unshare --mount --propagation private sh -ec '
  mount -t tmpfs none /run
  mount --bind VAR /var/lib
  for folder inWRITABLE; do
    mkdir -p $folder
    mount --bind $folder $folder
    [ $(stat -c %u $folder) = 61234 ] || chown -R 61234:61234 $folder
  done
  cd /
  awk "{print \$2}" /proc/self/mounts | while read at; do
    case " WRITABLE /proc /dev /sys " in *" $at "*) continue;; esac
    case $at in /proc/*|/dev/*|/sys/*) continue;; esac
    mount -o remount,bind,ro "$at" 2>/dev/null || true
  done
  mount -t tmpfs none /tmp
  exec setpriv --reuid 61234 --regid 61234 --clear-groups --inh-caps=-all,+lease \
    --ambient-caps=-all,+lease --bounding-set=-all,+lease --no-new-privs HMANN "$@"' sh "$@"
)",
                            {{"VAR", var_}, {"WRITABLE", writable}, {"HMANN", HmannProgram()}}));
    ASSERT_EQ(chmod(wrapper_.c_str(), 0755), 0);
    std::filesystem::create_directories(var_ + "/hmann");
    std::filesystem::create_directories(var_ + "/etc");
    WriteFile(var_ + "/etc/serve.toml", "[index.sample]\nfile = \"/var/lib/hmann/photos\"\n");
  }

  static void Make(const std::string& folder) {
    const Outcome made = Hmann({"create", folder, "--dim", "4", "--dtype", "u8"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  const TestFolder folder_{"service"};
  const std::string wrapper_ = folder_ / "service.sh", var_ = folder_ / "var";
  const std::vector<std::string> config_ = {"--config", "/var/lib/etc/serve.toml", "--drain", "0s"};
};

TEST_F(ServiceTest, ACollectionOfTheStateFolderIsWrittenAndMerged) {
  Make(var_ + "/hmann/photos");
  for (std::uint64_t start = 0; start < 2; ++start) {
    ServerProgram server("", config_, wrapper_);
    client::Client client = Connected(server.address());
    const std::vector<std::uint64_t> labels = {start, start + 10};
    const auto put = client.Put("sample", {.labels = labels},
                                client::Vectors::Raw(std::vector<std::byte>(8, std::byte{1})), {},
                                {.deadline = 20s});
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_EQ(client.Describe("sample")->n, 2 * (start + 1));
    const auto merged = client.Compact("sample", {.deadline = 60s});
    EXPECT_TRUE(merged.ok()) << merged.status();
    server.program().Signal(SIGTERM);
    EXPECT_EQ(server.program().Wait().exit_code, 0);
  }
}

TEST_F(ServiceTest, OneThatRootMadeLaterIsNamedWithTheCauseAndServedOnceItIsHandedOver) {
  struct stat state {};
  { ServerProgram first("", config_, wrapper_); }  // it has the folder now
  ASSERT_EQ(stat((var_ + "/hmann").c_str(), &state), 0);
  EXPECT_EQ(state.st_uid, 61234u);
  Make(var_ + "/hmann/photos");
  {
    ServerProgram server("", config_, wrapper_);
    const Outcome ended = server.program().Wait();
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.err, HasSubstr("photos"));
    EXPECT_THAT(ended.err, HasSubstr("Permission denied"));
  }
  ASSERT_EQ(RunProgram({"/usr/bin/chown", "-R", absl::StrCat("--reference=", var_, "/hmann"),
                        var_ + "/hmann/photos"})
                .exit_code,
            0);
  ServerProgram server("", config_, wrapper_);
  EXPECT_TRUE(Connected(server.address()).Describe("sample").ok());
}

TEST_F(ServiceTest, OneElsewhereIsReadOnly) {
  Make(var_ + "/other");
  WriteFile(var_ + "/etc/serve.toml", "[index.sample]\nfile = \"/var/lib/other\"\n");
  ServerProgram server("", config_, wrapper_);
  EXPECT_NE(server.program().Wait().exit_code, 0) << "nothing but its own folders is writable";
}

TEST(UnitTest, SystemdTakesIt) {
  const TestFolder folder("unit");
  WriteFile(folder / "hmann.service",
            absl::StrReplaceAll(ReadFile(kUnit), {{"/usr/bin/hmann", HmannProgram()}}));
  const Outcome ran = RunProgram(
      {"/usr/bin/env", "systemd-analyze", "verify", "--man=no", folder / "hmann.service"});
  if (ran.exit_code == 127) GTEST_SKIP() << "no systemd-analyze here";
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, testing::Not(HasSubstr("hmann.service:"))) << "it does not know a setting";
}

}  // namespace
}  // namespace hmann
