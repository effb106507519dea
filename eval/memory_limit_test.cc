// A real memory cgroup with real programs in it. Skipped if none can be created.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "eval/child_process.h"
#include "eval/memory_group.h"
#include "eval/page_cache.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

class MemoryLimit : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<MemoryGroup> made = MemoryGroup::Create("test", 32_MiB);
    if (!made.ok()) GTEST_SKIP() << made.status().message();
    group_.emplace(*std::move(made));
    stem_ = absl::StrCat(testing::TempDir(), "memory_limit_test.", ::getpid());
  }
  void TearDown() override {
    for (const char* suffix : {".log", ".data"}) fs::remove(stem_ + suffix);
  }

  absl::StatusOr<ChildProcess> Start(const std::string& script) {
    return ChildProcess::Start({"/bin/sh", "-c", script}, stem_ + ".log", group_->procs());
  }
  static absl::StatusOr<std::string> Line(absl::StatusOr<ChildProcess>& child) {
    return child->ReadLine(milliseconds(60000), nullptr);
  }

  std::optional<MemoryGroup> group_;
  std::string stem_;
};

TEST_F(MemoryLimit, AProgramStartsInsideAndTheGroupGoesWithIt) {
  const fs::path folder = fs::path(group_->procs()).parent_path();
  {
    absl::StatusOr<ChildProcess> child =
        Start("grep -c '/hmann-eval' /proc/self/cgroup; cat > /dev/null");
    ASSERT_TRUE(child.ok()) << child.status();
    EXPECT_EQ(*Line(child), "1");
    EXPECT_TRUE(fs::exists(folder));
    EXPECT_GT(group_->Use().peak_bytes, 0u);
  }
  group_.reset();
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(MemoryLimit, WhatStillRunsInItEndsWithIt) {
  const fs::path folder = fs::path(group_->procs()).parent_path();
  absl::StatusOr<ChildProcess> child = Start("setsid sleep 600 & echo $!; exit 0");
  ASSERT_TRUE(child.ok()) << child.status();
  const std::string pid = *Line(child);
  EXPECT_TRUE(fs::exists("/proc/" + pid));
  group_.reset();
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(MemoryLimit, TooMuchMemoryEndsTheProgramAndIsCounted) {
  absl::StatusOr<ChildProcess> child =
      Start("x=$(head -c 100000000 /dev/zero | tr '\\0' 'x'); echo ${#x}");
  ASSERT_TRUE(child.ok()) << child.status();
  const absl::StatusOr<std::string> line = Line(child);
  EXPECT_TRUE(!line.ok() || *line != "100000000") << *line;
  EXPECT_GT(group_->Use().out_of_memory_kills, 0u);
  EXPECT_LE(group_->Use().peak_bytes, 32_MiB);
}

TEST_F(MemoryLimit, PageCacheCountsAndIsNotAnError) {
  const std::string file = stem_ + ".data";
  std::ofstream(file) << std::string(64_MiB, 'x');
  const absl::StatusOr<double> left = DropFromPageCache(file);
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(*left, 0);
  absl::StatusOr<ChildProcess> child =
      Start(absl::StrCat("cat ", file, " | wc -c; cat > /dev/null"));
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_THAT(*Line(child), HasSubstr("67108864"));
  const MemoryUse use = group_->Use();
  EXPECT_LE(use.peak_bytes, 32_MiB);
  EXPECT_EQ(use.out_of_memory_kills, 0u);
  EXPECT_LT(*ShareInPageCache(file), 0.6) << "only what fits into the limit stays";
}

TEST_F(MemoryLimit, ItCanBeLowered) {
  ASSERT_TRUE(group_->Limit(8_MiB).ok());
  EXPECT_EQ(group_->limit_bytes(), 8_MiB);
  absl::StatusOr<ChildProcess> child =
      Start("x=$(head -c 20000000 /dev/zero | tr '\\0' 'x'); echo ${#x}");
  ASSERT_TRUE(child.ok()) << child.status();
  const absl::StatusOr<std::string> line = Line(child);
  EXPECT_TRUE(!line.ok() || *line != "20000000") << *line;
}

TEST_F(MemoryLimit, AGroupThatIsGoneIsAnErrorOfTheStart) {
  const std::string procs = group_->procs();
  group_.reset();
  EXPECT_THAT(std::string(ChildProcess::Start({"true"}, stem_ + ".log", procs).status().message()),
              HasSubstr("cgroup.procs"));
}

}  // namespace
}  // namespace hmann::eval
