/// Tier nvme on machines that lack what it wants.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "index/tiers/pread_reader.h"
#include "index/tiers/ring_reader.h"
#include "index/tiers/testing/tier_fixture.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

class Nvme : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status status = PlaceIn("nvme", source_.get()).status();
    if (absl::StrContains(status.message(), "refuses O_DIRECT")) GTEST_SKIP() << status;
  }
  /// Returns 0 if a newly placed region has the right bytes and its warning contains
  /// `warning`.
  int Serve(const char* warning) const {
    const auto region = PlaceIn("nvme", source_.get());
    if (!region.ok()) return 10;
    if (!SameBytes(ReadRange(*region, 0, region->size()), source_.bytes())) return 11;
    const bool warned = *warning == '\0' ? region->warning().empty()
                                         : absl::StrContains(region->warning(), warning);
    return warned ? 0 : 12;
  }

  Source source_{300 * 1024 + 9};
};

TEST_F(Nvme, ServesWithThreadsWhereIoUringIsForbidden) {
  for (const int error : {EPERM, ENOSYS}) {
    const int fate = FateOfChild([&] {
      // As container runtimes do it: the system call fails.
      sock_filter program[] = {
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      };
      const sock_fprog filter{4, program};
      if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
          ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        return 2;
      return Serve("threads with pread serve each reader instead");
    });
    EXPECT_EQ(fate, 1000) << error;
  }
}

TEST_F(Nvme, ServesWhereMemoryMayNotBeLocked) {
  const bool ring = RingUsable().ok();
  for (const rlim_t bytes : {rlim_t{0}, rlim_t{256 * 1024}}) {
    const int fate = FateOfChild([&] {
      const rlimit limit{bytes, bytes};
      if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 2;
      if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 3;
      // Without room for a ring (kernels differ in what they count), threads serve. With
      // room, a ring does, and its frames are unregistered.
      return bytes > 0 && ring ? Serve("")
                               : std::min(Serve(""), Serve("pread serve each reader instead"));
    });
    EXPECT_EQ(fate, 1000) << bytes;
  }
}

TEST_F(Nvme, NeedsToBeToldTheFile) {
  PlacementSource nameless = source_.get();
  nameless.path.clear();
  EXPECT_EQ(PlaceIn("nvme", nameless).status().code(), absl::StatusCode::kInvalidArgument);
  PlacementSource crooked = source_.get();
  crooked.file_offset = 100;
  EXPECT_EQ(PlaceIn("nvme", crooked).status().code(), absl::StatusCode::kInvalidArgument);
  PlacementSource missing = source_.get();
  missing.path += ".not";
  EXPECT_EQ(PlaceIn("nvme", missing).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(Nvme, NoticesAnotherFileUnderTheName) {
  PlacementSource replaced = source_.get();
  const Source other(400 * 1024, "other");
  replaced.path = other.path();
  absl::Status status = PlaceIn("nvme", replaced).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was the file replaced?"));
  const Source small(4096, "small");
  replaced.path = small.path();
  status = PlaceIn("nvme", replaced).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("expected 307209 bytes, found a file of 8192"));
}

TEST_F(Nvme, NamesAFileSystemThatRefuses) {
  PlacementSource source = source_.get();
  source.path = "/proc/self/maps";
  const absl::Status status = PlaceIn("nvme", source).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("its file system refuses O_DIRECT"));
  source.path = "/dev";
  EXPECT_FALSE(PlaceIn("nvme", source).ok());
}

std::atomic<bool> let_go{false};
std::atomic<int> hanging{0}, ended{0};

ssize_t HangingPread(int, void* buffer, std::size_t bytes, off_t) {
  ++hanging;
  let_go.wait(false);
  std::fill_n(static_cast<char*>(buffer), bytes, 'x');
  ++ended;
  return static_cast<ssize_t>(bytes);
}

TEST(PreadReader, LeavesHangingReadsTheirFrames) {
  const Source source(64 * 4096);
  const int fd = ::open(source.path().c_str(), O_RDONLY | O_CLOEXEC);
  const DirectExtent extent{std::make_shared<const DirectFile>(fd, source.path()), 0, 64 * 4096};
  auto reader =
      NewPreadReader(extent, {.depth = 8, .frames = 8, .frame_bytes = 4096}, HangingPread);
  ASSERT_TRUE(reader.ok());
  std::vector<BlockRead> reads;
  for (std::uint32_t frame = 0; frame < 8; ++frame)
    reads.push_back({frame * 4096u, 4096, frame, frame});
  ASSERT_TRUE((*reader)->Submit(reads).ok());
  while (hanging < static_cast<int>(kPreadThreads)) std::this_thread::yield();
  std::vector<BlockDone> done;
  EXPECT_TRUE((*reader)->Wait(Clock::now() + std::chrono::milliseconds(1), &done).ok());
  EXPECT_TRUE(done.empty());
  EXPECT_EQ((*reader)->InFlight(), 8u);
  *reader = nullptr;
  EXPECT_EQ(ended, 0) << "the reader did not wait for them";
  let_go = true;
  let_go.notify_all();
  while (ended < static_cast<int>(kPreadThreads)) std::this_thread::yield();
  EXPECT_EQ(hanging, static_cast<int>(kPreadThreads)) << "what had not begun never will";
}

TEST(RingReader, LeavesHangingReadsTheirFrames) {
  if (!RingUsable().ok()) GTEST_SKIP() << RingUsable();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const DirectExtent extent{std::make_shared<const DirectFile>(ends[0], "a pipe"), 0, 4096};
  std::byte* frame = nullptr;
  {
    const auto reader = NewRingReader(extent, {.depth = 2, .frames = 1, .frame_bytes = 4096});
    ASSERT_TRUE(reader.ok()) << reader.status();
    const BlockRead read{0, 4096, 0, 5};
    frame = (*reader)->Frame(0);
    frame[0] = std::byte{42};
    ASSERT_TRUE((*reader)->Submit({&read, 1}).ok());
    std::vector<BlockDone> done;
    EXPECT_TRUE((*reader)->Wait(Clock::now() + std::chrono::milliseconds(1), &done).ok());
    EXPECT_TRUE(done.empty());
    EXPECT_EQ((*reader)->InFlight(), 1u);
  }
  EXPECT_EQ(
      FateOfChild([&] { return std::to_integer<int>(*const_cast<volatile std::byte*>(frame)); }),
      1042)
      << "it is still mapped";
  ::close(ends[1]);
}

TEST(RingReader, AnErrorOfTheDeviceIsDataLoss) {
  if (!RingUsable().ok()) GTEST_SKIP() << RingUsable();
  const Source source(4096);
  const int fd = ::open(source.path().c_str(), O_WRONLY | O_CLOEXEC);
  const DirectExtent extent{std::make_shared<const DirectFile>(fd, source.path()), 0, 4096};
  const ReaderOptions options{.depth = 1, .frames = 1, .frame_bytes = 4096};
  for (const auto& reader :
       {NewRingReader(extent, options), NewPreadReader(extent, options, ::pread)}) {
    ASSERT_TRUE(reader.ok()) << reader.status();
    const BlockRead read{0, 4096, 0, 5};
    ASSERT_TRUE((*reader)->Submit({&read, 1}).ok());
    const auto done = WaitFor(**reader, 1);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status,
              absl::DataLossError(absl::StrCat(
                  source.path(), ": offset 0: expected 4096 bytes, found Bad file descriptor")));
  }
}

}  // namespace
}  // namespace hmann
