// Tests of a file that changes while it is served.
#include "server/core/file_guard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <span>

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
  EXPECT_EQ(OpenToWrite(), -1);
  EXPECT_EQ(errno, EWOULDBLOCK);
  EXPECT_TRUE(guard->Changed());
  guard->Release();
  const int file = OpenToWrite();
  EXPECT_GE(file, 0);
  close(file);
}

TEST_F(FileGuardTest, WithoutALeaseSizeAndTimeTell) {
  const int writer = OpenToWrite();  // prevents any lease
  const auto guard = Taken(path_);
  EXPECT_FALSE(guard->has_lease());
  EXPECT_TRUE(guard->CheckOpened().ok());
  EXPECT_FALSE(guard->Changed());
  EXPECT_EQ(pwrite(writer, "y", 1, 5), 1);
  EXPECT_TRUE(guard->Changed());
  close(writer);
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
