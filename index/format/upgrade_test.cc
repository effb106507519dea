#include "index/format/upgrade.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/format/header.h"
#include "index/format/reader.h"
#include "index/format/testing/ring_index.h"
#include "index/format/verify.h"

namespace hmann {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kOld[] = "index/format/golden/v3.hmann", kNew[] = "index/format/golden/v4.hmann";
constexpr RingIndex::Shape kShape = {
    .user_labels = true, .bits = 2, .replicas = 2, .scalar_bits = 4};
/// Long records, which format 4 packs.
constexpr char kOldWide[] = "index/format/golden/v3.wide.hmann";
constexpr RingIndex::Shape kWideShape = {.n = 14,
                                         .n1 = 4,
                                         .m = 2,
                                         .dim = 600,
                                         .dtype = DType::kF32,
                                         .user_labels = true,
                                         .bits = 2,
                                         .replicas = 2,
                                         .scalar_bits = 4};

class UpgradeIndexTest : public testing::Test {
 protected:
  absl::StatusOr<IndexInfo> Upgrade(const std::string& from) {
    return UpgradeIndex(from, out_, silent_);
  }
  std::string Refusal(const std::vector<std::byte>& bytes) {
    TemporaryPath from(::testing::TempDir(), "old");
    WriteBytes(from, bytes);
    const auto upgraded = Upgrade(from);
    EXPECT_TRUE(!upgraded.ok() && ReadBytes(out_).empty());
    return std::string(upgraded.status().message());
  }

  Progress silent_{Progress::Show::kNever};
  TemporaryPath out_{::testing::TempDir(), "upgraded"};
};

TEST_F(UpgradeIndexTest, GivesTheBytesOfTheCurrentWriter) {
  for (const auto& [old, shape] : {std::pair(kOld, kShape), {kOldWide, kWideShape}}) {
    const auto info = Upgrade(old);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->version, "4.0");
    RingIndex index(shape);
    TemporaryPath fresh(::testing::TempDir(), "fresh");
    ASSERT_TRUE(WriteIndex(fresh, index.contents, silent_).ok());
    EXPECT_TRUE(ReadBytes(out_) == ReadBytes(fresh)) << old;
    EXPECT_EQ(VerifyIndex(out_, silent_), absl::OkStatus());
  }
  EXPECT_LT(ReadBytes(out_).size(), ReadBytes(kOldWide).size());
}

/// A limit on the size of files ends the child at the write that exceeds it.
TEST_F(UpgradeIndexTest, KilledAtAnyWriteItLeavesTheOldFiles) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts threads";
#endif
  const std::vector<std::byte> from = ReadBytes(kOld), before(5000, std::byte{7});
  ASSERT_TRUE(Upgrade(kOld).ok());
  const std::size_t size = ReadBytes(out_).size();
  constexpr std::size_t kMoments = 50;
  for (std::size_t moment = 0; moment < kMoments; ++moment) {
    WriteBytes(out_, before);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const rlimit limit{moment * size / kMoments, RLIM_INFINITY};
      ::signal(SIGXFSZ, SIG_DFL);
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::_exit(Upgrade(kOld).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << moment << ": " << status;
    EXPECT_TRUE(ReadBytes(out_) == before) << moment;
    EXPECT_TRUE(ReadBytes(kOld) == from) << moment;
    for (const auto& entry : std::filesystem::directory_iterator(testing::TempDir())) {
      if (entry.path().string().starts_with(absl::StrCat(out_.str(), ".tmp.", child, ".")))
        RemoveIfDead(entry.path().string());
    }
  }
}

TEST_F(UpgradeIndexTest, OthersRefuseTheOldFormatWithThatAdvice) {
  for (const char* old : {kOld, kOldWide}) {
    const absl::Status refused = IndexFile::Open(old).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("is format 3.0"), HasSubstr("`hmann upgrade` converts it")));
  }
}

TEST_F(UpgradeIndexTest, RefusesWhatIsNoSoundIndexOfTheOldFormat) {
  EXPECT_THAT(std::string(Upgrade(kNew).status().message()), HasSubstr("is format 4.0 already"));
  const std::vector<std::byte> old = ReadBytes(kOld);
  EXPECT_THAT(Refusal({old.begin(), old.end() - 4096}), HasSubstr("truncated"));
  const auto file = IndexFile::Open(kOld, Formats::kAlsoOld);
  ASSERT_TRUE(file.ok()) << file.status();
  for (const Section& section : file->sections()) {
    std::vector<std::byte> damaged = old;
    damaged[section.offset + section.bytes / 2] ^= std::byte{4};
    EXPECT_THAT(Refusal(damaged), HasSubstr(Name(section)));
  }
}

TEST_F(UpgradeIndexTest, TheOldFileIsNoPlaceForTheNewOne) {
  TemporaryPath from(::testing::TempDir(), "kept"), link(::testing::TempDir(), "link"),
      second(::testing::TempDir(), "second");
  const std::vector<std::byte> old = ReadBytes(kOld);
  WriteBytes(from, old);
  const std::string& path = from;
  std::filesystem::create_symlink(path, std::string(link));
  std::filesystem::create_hard_link(path, std::string(second));
  for (const std::string& out : {path, std::string(link), std::string(second)}) {
    const auto upgraded = UpgradeIndex(path, out, silent_);
    EXPECT_EQ(upgraded.status().code(), absl::StatusCode::kInvalidArgument) << out;
    EXPECT_THAT(std::string(upgraded.status().message()), HasSubstr("is the input "));
    EXPECT_TRUE(ReadBytes(from) == old);
  }
}

}  // namespace
}  // namespace hmann
