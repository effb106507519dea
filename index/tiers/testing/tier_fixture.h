#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "hmann/tier.h"
#include "index/base/chunked_checksum.h"
#include "index/base/file.h"
#include "index/base/random.h"
#include "index/base/units.h"

namespace hmann {

/// Shared parts of the tests of the tiers.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMlockWorks = false;  // sanitizers make it a no-op
#else
constexpr bool kMlockWorks = true;
#endif

using Clock = std::chrono::steady_clock;

inline std::string TestPath(const char* name) {
  return absl::StrCat(::testing::TempDir(), "/hmann_tiers_", ::getpid(), "_", name);
}

inline std::uint64_t ChecksumOf(std::span<const std::byte> bytes) {
  ChunkedChecksum checksum;
  checksum.Append(bytes.data(), bytes.size());
  return checksum.Digest();
}

/// Random bytes in a mapped file, from its second block on, like a section in an index
/// file.
class Source {
 public:
  static constexpr std::uint64_t kBegin = 4096;

  explicit Source(std::size_t bytes, const char* name = "source") : path_(TestPath(name)) {
    std::string text(kBegin + bytes, '\0');
    for (std::size_t i = kBegin; i < text.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t random = Random(bytes, i);
      std::memcpy(text.data() + i, &random, std::min(sizeof(random), text.size() - i));
    }
    AtomicFile file = *AtomicFile::Create(path_);
    EXPECT_TRUE(file.Append(text.data(), text.size()).ok() && file.Commit().ok());
    file_ = *MappedFile::Open(path_);
    // The checksum is of the text, so the mapping stays untouched.
    checksum_ = ChecksumOf(std::as_bytes(std::span(text).subspan(kBegin)));
  }
  ~Source() { ::unlink(path_.c_str()); }
  PlacementSource get() const { return {bytes(), checksum_, path_, kBegin, "source"}; }
  std::span<const std::byte> bytes() const { return file_.bytes().subspan(kBegin); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  MappedFile file_;
  std::uint64_t checksum_ = 0;
};

inline bool SameBytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

inline absl::StatusOr<Region> PlaceIn(const std::string& spec, const PlacementSource& source) {
  Progress silent(Progress::Show::kNever);
  const auto tier = MakeTier(spec);
  if (!tier.ok()) return tier.status();
  return (*tier)->Place(source, silent);
}

/// Waits for `count` reads, at most a minute.
inline std::vector<BlockDone> WaitFor(BlockReader& reader, std::size_t count) {
  std::vector<BlockDone> done;
  const auto patience = Clock::now() + std::chrono::minutes(1);
  while (done.size() < count && Clock::now() < patience) {
    const absl::Status status = reader.Wait(patience, &done);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok() || reader.InFlight() == 0) break;
  }
  EXPECT_GE(done.size(), count);
  return done;
}

/// Bytes [offset, offset + bytes) of a region, on any tier.
inline std::vector<std::byte> ReadRange(const Region& region, std::uint64_t offset,
                                        std::uint64_t bytes) {
  if (region.data() != nullptr) return {region.data() + offset, region.data() + offset + bytes};
  std::vector<std::byte> read;
  if (bytes == 0) return read;
  const auto reader = region.NewReader({.depth = 4, .frames = 1, .frame_bytes = 64_KiB});
  EXPECT_TRUE(reader.ok()) << reader.status();
  const std::uint64_t end = offset + bytes, block_end = (end + 4095) / 4096 * 4096;
  for (std::uint64_t at = offset / 4096 * 4096; reader.ok() && at < end; at += 64_KiB) {
    const BlockRead wanted{at, static_cast<std::uint32_t>(std::min(64_KiB, block_end - at)), 0, at};
    const auto taken = (*reader)->Submit({&wanted, 1});
    EXPECT_TRUE(taken.ok() && *taken == 1) << taken.status();
    for (const BlockDone& done : WaitFor(**reader, 1)) {
      EXPECT_TRUE(done.status.ok()) << done.status;
      const std::uint64_t from = std::max(at, offset), to = std::min(at + 64_KiB, end);
      read.insert(read.end(), (*reader)->Frame(0) + (from - at), (*reader)->Frame(0) + (to - at));
    }
  }
  return read;
}

/// How a child process that runs `body` ends: its signal, or 1000 + its exit code.
template <class Body>
int FateOfChild(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 1000 + WEXITSTATUS(status);
}

/// A tier by its spec, in which PATH stands for the test's own file, and a leading "pread
/// " disables io_uring.
class TierByName : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr absl::string_view kPread = "pread ";

  void SetUp() override {
    spec_ = absl::StrReplaceAll(GetParam(), {{"PATH", copy_}, {kPread, ""}});
    if (absl::StartsWith(GetParam(), kPread)) ::setenv("HMANN_IO", "pread", 1);
    auto tier = MakeTier(spec_);
    if (!tier.ok() && absl::StrContains(tier.status().message(), "no NUMA support"))
      GTEST_SKIP() << tier.status();
    ASSERT_TRUE(tier.ok()) << tier.status();
    tier_ = *std::move(tier);
    const Source probe(1, "probe");
    Progress silent(Progress::Show::kNever);
    const absl::Status status = tier_->Place(probe.get(), silent).status();
    if (absl::StrContains(status.message(), "refuses O_DIRECT")) GTEST_SKIP() << status;
  }
  void TearDown() override {
    ::unsetenv("HMANN_IO");
    ::unlink(copy_.c_str());
  }

  Region Place(const Source& source) {
    Progress silent(Progress::Show::kNever);
    auto region = tier_->Place(source.get(), silent);
    EXPECT_TRUE(region.ok()) << region.status();
    return region.ok() ? *std::move(region) : Region();
  }

  std::string copy_ = TestPath("copy");
  std::string spec_;
  std::unique_ptr<Tier> tier_;
};

inline std::string NameOfTest(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace hmann
