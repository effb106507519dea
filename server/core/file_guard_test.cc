// Tests of a file that changes while it is served.
#include "server/core/file_guard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <span>
#include <thread>

#include "absl/strings/str_cat.h"

namespace hmann::server {
namespace {

constexpr std::size_t kBytes = 16384;  // four pages

class FileGuardTest : public testing::Test {
 protected:
  FileGuardTest() : path_(absl::StrCat(testing::TempDir(), "/hmann_guard_", getpid())) {
    Write(path_);
  }
  ~FileGuardTest() override { std::filesystem::remove(path_); }

  static void Write(const std::string& path) {
    std::ofstream(path, std::ios::binary) << std::string(kBytes, 'x');
  }
  static std::unique_ptr<FileGuard> Taken(const std::string& path) {
    auto guard = FileGuard::Take(path);
    EXPECT_TRUE(guard.ok()) << guard.status();
    return *std::move(guard);
  }
  /// Opens the file as a writer that does not wait; -1 with EWOULDBLOCK where it would
  /// wait.
  int OpenToWrite() const { return open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC); }

  const std::string path_;
};

TEST_F(FileGuardTest, AWriterWaitsUntilItIsLetGoOn) {
  const auto guard = Taken(path_);
  if (!guard->has_lease()) GTEST_SKIP() << "no leases on the file system of " << path_;
  EXPECT_TRUE(guard->CheckOpened().ok());
  EXPECT_FALSE(guard->Changed());
  for (const bool cuts : {false, true}) {
    const auto next = cuts ? Taken(path_) : nullptr;
    FileGuard& asked = cuts ? *next : *guard;
    std::atomic<bool> written{false};
    std::thread writer([&] {
      if (cuts) {
        EXPECT_EQ(truncate(path_.c_str(), kBytes), 0);
      } else {
        close(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
      }
      written = true;
    });
    while (!asked.Changed()) std::this_thread::yield();
    EXPECT_TRUE(asked.Changed()) << "as long as it waits";
    EXPECT_FALSE(written);
    asked.Release();
    writer.join();
  }
}

TEST_F(FileGuardTest, AnOpenThatWasRefusedIsNoChange) {
  const auto guard = Taken(path_);
  if (!guard->has_lease()) GTEST_SKIP() << "no leases on the file system of " << path_;
  for (const int how : {O_RDWR, O_WRONLY, O_WRONLY | O_TRUNC, O_RDWR | O_APPEND}) {
    EXPECT_EQ(open(path_.c_str(), how | O_NONBLOCK | O_CLOEXEC), -1);
    EXPECT_EQ(errno, EWOULDBLOCK);
    EXPECT_FALSE(guard->Changed());
    EXPECT_FALSE(guard->Touched());
  }
  // Its writers wait as before.
  EXPECT_TRUE(guard->has_lease());
  EXPECT_EQ(OpenToWrite(), -1);
}

TEST_F(FileGuardTest, AWriterThatGaveUpIsNoChange) {
  const auto guard = Taken(path_);
  if (!guard->has_lease()) GTEST_SKIP() << "no leases on the file system of " << path_;
  const pid_t writer = fork();
  if (writer == 0) _exit(open(path_.c_str(), O_WRONLY) < 0 ? 1 : 0);
  while (!guard->Changed()) std::this_thread::yield();
  kill(writer, SIGKILL);
  ASSERT_EQ(waitpid(writer, nullptr, 0), writer);
  EXPECT_FALSE(guard->Changed());
  EXPECT_TRUE(guard->has_lease());
}

TEST_F(FileGuardTest, NewTimesAloneCallForALookAtTheContent) {
  for (const bool lease : {true, false}) {
    const int writer = lease ? -1 : OpenToWrite();
    const auto guard = Taken(path_);
    if (!lease) close(writer);
    for (const std::int64_t second : {1'000'000'000, 1'900'000'000}) {
      const timespec times[2] = {{second, 0}, {second, 5}};
      ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
      EXPECT_TRUE(guard->Touched());
      EXPECT_FALSE(guard->Changed());
      guard->Trust(guard->TimeNow());
      EXPECT_FALSE(guard->Touched());
    }
  }
}

TEST_F(FileGuardTest, WhatLeavesTheContentIsNoChange) {
  const auto guard = Taken(path_);
  const std::string other = path_ + ".other";
  EXPECT_EQ(chmod(path_.c_str(), 0640), 0);
  EXPECT_EQ(chown(path_.c_str(), geteuid(), getegid()), 0);
  EXPECT_EQ(link(path_.c_str(), other.c_str()), 0);
  EXPECT_EQ(unlink(other.c_str()), 0);
  const timespec read_only[2] = {{1'000'000'000, 0}, {0, UTIME_OMIT}};
  EXPECT_EQ(utimensat(AT_FDCWD, path_.c_str(), read_only, 0), 0);
  EXPECT_EQ(rename(path_.c_str(), other.c_str()), 0);
  EXPECT_EQ(rename(other.c_str(), path_.c_str()), 0);
  EXPECT_FALSE(guard->Changed());
  EXPECT_FALSE(guard->Touched());
}

TEST_F(FileGuardTest, WithoutALeaseSizeAndTimeTell) {
  const int writer = OpenToWrite();  // prevents any lease
  const auto guard = Taken(path_);
  EXPECT_FALSE(guard->has_lease());
  EXPECT_TRUE(guard->CheckOpened().ok());
  EXPECT_FALSE(guard->Changed());
  EXPECT_EQ(pwrite(writer, "y", 1, 5), 1);
  EXPECT_TRUE(guard->Changed());
  EXPECT_TRUE(guard->Touched());
  close(writer);
  EXPECT_FALSE(guard->Changed()) << "only its checksums can tell";
  EXPECT_TRUE(guard->Touched());
}

TEST_F(FileGuardTest, AWriteThroughAMappingIsSeenByItsTime) {
  const int writer = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  close(writer);
  struct statfs disk {};
  ASSERT_EQ(statfs(path_.c_str(), &disk), 0);
  const auto guard = Taken(path_);
  EXPECT_FALSE(guard->has_lease()) << "the mapping may be written to";
  EXPECT_FALSE(guard->Touched());
  static_cast<char*>(mapped)[3] = 'y';
  ASSERT_EQ(msync(mapped, kBytes, MS_SYNC), 0);
  EXPECT_EQ(guard->Touched(), disk.f_type != TMPFS_MAGIC);
  munmap(mapped, kBytes);
}

TEST_F(FileGuardTest, APageThatIsGoneReadsAsZerosAndTells) {
  const int writer = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  const auto guard = Taken(path_);
  void* mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, writer, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  guard->Watch({static_cast<const std::byte*>(mapped), kBytes});
  ASSERT_TRUE(guard->CheckOpened().ok());
  ASSERT_EQ(ftruncate(writer, 4096), 0);
  const auto* bytes = static_cast<const volatile char*>(mapped);
  EXPECT_EQ(bytes[100], 'x');
  EXPECT_EQ(bytes[2 * 4096 + 100], 0);
  EXPECT_TRUE(guard->Changed());
  munmap(mapped, kBytes);
  close(writer);
}

TEST_F(FileGuardTest, EachOfTwoGuardsOfAFileWatchesItsOwnMapping) {
  const int writer = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  const auto map = [&] {
    void* mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, writer, 0);
    return std::span(static_cast<const std::byte*>(mapped), kBytes);
  };
  auto first = Taken(path_);
  const auto second = Taken(path_);
  const std::span<const std::byte> of_first = map(), of_second = map();
  first->Watch(of_first);
  second->Watch(of_second);
  ASSERT_EQ(ftruncate(writer, 4096), 0);
  const auto read = [](std::span<const std::byte> bytes) {
    return static_cast<const volatile std::byte&>(bytes[2 * 4096]);
  };
  EXPECT_EQ(read(of_first), std::byte{0});
  first.reset();
  EXPECT_EQ(read(of_second), std::byte{0});  // without a watch, SIGBUS ends the process
  EXPECT_TRUE(second->Changed());
  munmap(const_cast<std::byte*>(of_first.data()), kBytes);
  munmap(const_cast<std::byte*>(of_second.data()), kBytes);
  close(writer);
}

TEST_F(FileGuardTest, ARenameIsNoChangeOnceItIsServed) {
  const auto guard = Taken(path_);
  ASSERT_TRUE(guard->CheckOpened().ok());
  Write(path_ + ".new");
  std::filesystem::rename(path_ + ".new", path_);
  EXPECT_FALSE(guard->Changed());
  // During opening, a rename is a change: the name no longer stands for the guarded file.
  EXPECT_THAT(std::string(guard->CheckOpened().message()),
              testing::HasSubstr("was replaced or written to while it was opened"));
}

TEST_F(FileGuardTest, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(std::string(FileGuard::Take("/nowhere/x.hmann").status().message()),
              testing::HasSubstr("/nowhere/x.hmann"));
}

TEST_F(FileGuardTest, APipeIsRefusedAtOnce) {
  const std::string pipe = path_ + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const absl::Status refused = FileGuard::Take(pipe).status();
  std::filesystem::remove(pipe);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_NE(refused.message().find(pipe), absl::string_view::npos);
}

}  // namespace
}  // namespace hmann::server
