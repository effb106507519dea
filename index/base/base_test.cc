#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "hmann/machine_load.h"
#include "index/base/buffer.h"
#include "index/base/checksum.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/random.h"
#include "index/base/thread_pool.h"
#include "index/base/units.h"

namespace hmann {
namespace {

std::string TestPath(const char* name) {
  return absl::StrCat(::testing::TempDir(), "/hmann_base_", ::getpid(), "_", name);
}

TEST(Units, SizesAndTimesAreStrict) {
  EXPECT_EQ(*ParseSize("512MiB"), 512_MiB);
  EXPECT_EQ(*ParseSize("96GiB"), 96_GiB);
  EXPECT_EQ(*ParseSize("10M"), 10'000'000u);
  EXPECT_EQ(*ParseSize("7"), 7u);
  EXPECT_EQ(*ParseSize("18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(*ParseSize("1.5GiB"), 1536_MiB);
  EXPECT_EQ(*ParseSize("2gb"), 2'000'000'000u);
  EXPECT_EQ(*ParseSize("1e9"), 1'000'000'000u);
  EXPECT_EQ(*ParseSize("0.2m"), 200'000u);
  for (const char* wrong : {"", "GiB", "1.5B", "-1", "1 GiB", "99999999999GiB", "12x", "1e", "1e99",
                            ".", "1.2.3", "nan", "0x10"})
    EXPECT_FALSE(ParseSize(wrong).ok()) << wrong;
  EXPECT_EQ(*ParseDuration("800us"), std::chrono::microseconds(800));
  EXPECT_EQ(*ParseDuration("2ms"), std::chrono::milliseconds(2));
  EXPECT_EQ(*ParseDuration("0.2ms"), std::chrono::microseconds(200));
  for (const char* wrong : {"", "5", "ms", "-1s", "99999999999999s"})
    EXPECT_FALSE(ParseDuration(wrong).ok()) << wrong;
}

TEST(Random, IsAFunctionOfSeedAndCounterAlone) {
  EXPECT_EQ(Random(1, 2), Random(1, 2));
  EXPECT_NE(Random(1, 2), Random(2, 1));
  double sum = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) sum += RandomUnit(3, i);
  EXPECT_NEAR(sum / 100000, 0.5, 0.01);
  const auto order = RandomPermutation(1000, 5);
  EXPECT_EQ(std::set<std::uint32_t>(order.begin(), order.end()).size(), 1000u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST(MachineLoad, CountsAProcessUnlessItIsOurs) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) getppid();
  }
  ASSERT_GT(child, 0);
  const MachineLoad without, with({child});
  usleep(500'000);
  const OthersShare others = without.Others(), less = with.Others();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_GT(others.busy, less.busy);
  EXPECT_LE(others.busy, 1);
  EXPECT_FALSE((OthersShare{.busy = 0.5}.quiet()));
  EXPECT_FALSE((OthersShare{.steal = 0.05}.quiet()));
  EXPECT_TRUE(OthersShare{}.quiet());
  EXPECT_EQ((OthersShare{.steal = 0.04, .busy = 0.31}.Describe()),
            "others took 31 % of the CPU, other virtual machines 4 %");
}

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (std::size_t n : {0, 1, 7, 1000, 100000}) {
      std::vector<std::atomic<int>> hits(n);
      pool.ParallelFor(n, 13, [&](std::size_t begin, std::size_t end, int thread) {
        ASSERT_LT(thread, threads);
        ASSERT_LE(end - begin, 13u);
        for (std::size_t i = begin; i < end; ++i) ++hits[i];
      });
      EXPECT_TRUE(std::all_of(hits.begin(), hits.end(), [](const auto& h) { return h == 1; }));
    }
  }
}

/// Holds the thread that receives the signal, as a thread is held that has no core.
std::atomic<bool> held{false}, released{false};
void Hold(int) {
  for (held = true; !released;) usleep(1000);
  held = false;
}

TEST(ThreadPool, ALoopDoesNotWaitForAThreadThatHasNoCore) {
  ThreadPool pool(2);
  std::atomic<int> begun{0};
  pthread_t worker{};
  pool.ParallelFor(2, 1, [&](std::size_t, std::size_t, int thread) {
    if (thread == 1) worker = pthread_self();
    for (++begun; begun < 2;) usleep(1000);  // until both threads are here
  });
  signal(SIGUSR1, Hold);
  ASSERT_EQ(pthread_kill(worker, SIGUSR1), 0);
  while (!held) usleep(1000);
  std::jthread late([] {
    for (int i = 0; i < 200 && !released; ++i) usleep(50'000);
    released = true;
  });
  std::atomic<int> done{0};
  for (int loop = 0; loop < 100; ++loop) {
    pool.ParallelFor(1000, 10, [&](std::size_t begin, std::size_t end, int thread) {
      EXPECT_EQ(thread, 0);
      done += static_cast<int>(end - begin);
    });
  }
  EXPECT_TRUE(held);
  EXPECT_EQ(done, 100'000);
  released = true;
}

TEST(Buffer, IsZeroedAlignedAndRefusesTheImpossible) {
  auto buffer = Buffer::Allocate(5_MiB);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 2_MiB, 0u);
  EXPECT_EQ(std::to_integer<int>(buffer->data()[5_MiB - 1]), 0);
  EXPECT_EQ(Buffer::Allocate(~std::uint64_t{0} - 4_MiB).status().code(),
            absl::StatusCode::kResourceExhausted);
}

std::vector<std::string> TemporariesOf(const std::string& path) {
  std::vector<std::string> found;
  const std::string name = std::filesystem::path(path).filename().string() + ".tmp.";
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(path).parent_path())) {
    if (entry.path().filename().string().starts_with(name)) found.push_back(entry.path().string());
  }
  return found;
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const std::string path = TestPath("atomic");
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Append("old", 3).ok());
    ASSERT_TRUE(file->Commit().ok());
  }
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Append("new and longer", 14).ok());
  }  // abandoned
  EXPECT_EQ(*ReadTextFile(path, 100), "old");
  EXPECT_THAT(TemporariesOf(path), testing::IsEmpty());
  ::unlink(path.c_str());
}

TEST(AtomicFile, OverwritesAndExtends) {
  const std::string path = TestPath("sparse");
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Append("head", 4).ok());
  ASSERT_TRUE(file->ExtendTo(1_GiB).ok());
  ASSERT_TRUE(file->Append("tail", 4).ok());
  ASSERT_TRUE(file->WriteAt(0, "HEAD", 4).ok());
  EXPECT_FALSE(file->WriteAt(1_GiB, "12345", 5).ok());
  ASSERT_TRUE(file->Commit().ok());
  auto mapped = MappedFile::Open(path);
  ASSERT_TRUE(mapped.ok());
  ASSERT_EQ(mapped->bytes().size(), 1_GiB + 4);
  EXPECT_EQ(std::memcmp(mapped->bytes().data(), "HEAD", 4), 0);
  EXPECT_EQ(std::memcmp(mapped->bytes().data() + 1_GiB, "tail", 4), 0);
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 1000000) << "the gap must take no space";
  ::unlink(path.c_str());
}

TEST(File, ErrorsNameThePathAndTheReason) {
  const auto missing = MappedFile::Open("/no/such/file");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), testing::HasSubstr("/no/such/file"));
  EXPECT_EQ(MappedFile::Open("/tmp").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AtomicFile::Create("/no/such/folder/x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrnoError(ENOSPC, "write", "x").code(), absl::StatusCode::kResourceExhausted);
}

TEST(AtomicFile, TwoOfOneNameAtOnceAreBothWhole) {
  // As of two containers, in which each process is number 1.
  const std::string path = TestPath("twice");
  auto first = AtomicFile::Create(path), second = AtomicFile::Create(path);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->Append("first", 5).ok());
  ASSERT_TRUE(second->Append("second", 6).ok());
  EXPECT_EQ(first->Commit(), absl::OkStatus());
  EXPECT_EQ(*ReadTextFile(path, 100), "first");
  EXPECT_EQ(second->Commit(), absl::OkStatus());
  EXPECT_EQ(*ReadTextFile(path, 100), "second");
  ::unlink(path.c_str());
}

TEST(AtomicFile, OnlyTemporariesOfDeadProcessesAreRemoved) {
  const std::string path = TestPath("alive");
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_THAT(TemporariesOf(path), testing::SizeIs(1));
    const std::string name = TemporariesOf(path)[0];
    EXPECT_TRUE(IsTemporaryName(name));
    RemoveIfDead(name);
    ASSERT_TRUE(file->Append("alive", 5).ok());
    EXPECT_EQ(file->Commit(), absl::OkStatus());
    EXPECT_EQ(*ReadTextFile(path, 100), "alive");
  }
  const std::string dead = UniqueName(path + ".tmp"), link = UniqueName(path + ".tmp");
  ASSERT_TRUE(WriteTextFile(dead, "left by a process that was killed").ok());
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  for (const std::string& name : TemporariesOf(path)) RemoveIfDead(name);
  EXPECT_THAT(TemporariesOf(path), testing::SizeIs(1)) << "a link is not followed";
  EXPECT_EQ(*ReadTextFile(path, 100), "alive");
  ::unlink(link.c_str());
  ::unlink(path.c_str());
}

TEST(File, WhatHasNoNameIsRefused) {
  const std::string path = TestPath("gone");
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(fd, 0);
  ::unlink(path.c_str());
  const auto refused = FileToWrite(absl::StrCat("/proc/self/fd/", fd));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("has no name"));
  ::close(fd);
}

TEST(File, IsWrittenWhileOthersReplaceIt) {
  const std::string path = TestPath("replaced"), link = path + ".link";
  ASSERT_TRUE(WriteTextFile(path, "first").ok());
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  std::atomic<bool> ended = false;
  std::thread other([&] {
    while (!ended)
      if (::close(::open((path + ".new").c_str(), O_WRONLY | O_CREAT, 0600)) == 0)
        ::rename((path + ".new").c_str(), path.c_str());
  });
  absl::Status first;
  for (int i = 0; i < 20'000 && first.ok(); ++i)
    first = FileToWrite(i % 8 == 0 ? link : path).status();
  ended = true;
  other.join();
  EXPECT_EQ(first, absl::OkStatus());
  ::unlink(path.c_str());
  ::unlink(link.c_str());
}

TEST(FirstError, IsThatOfTheSmallestItem) {
  FirstError first;
  EXPECT_TRUE(first.Named("row ").ok());
  first.Note(7, InvalidArgument("seven"));
  first.Note(9, InvalidArgument("nine"));
  first.Note(2, absl::OkStatus());
  first.Note(3, NotFound("three"));
  EXPECT_EQ(first.Named("row "), NotFound("row 3: three"));
}

TEST(Cpu, SaysSomethingSensible) {
  EXPECT_GE(UsableCores(), 1);
  EXPECT_GT(UsableMemoryBytes(), 1_MiB);
  EXPECT_GT(PeakRssBytes(), 1_MiB);
}

TEST(Checksum, MatchesThePublishedValueOfTheEmptyInput) {
  EXPECT_EQ(Checksum("", 0), 0x2d06800538d394c2u);
}

}  // namespace
}  // namespace hmann
