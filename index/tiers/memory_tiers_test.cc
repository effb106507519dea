/// The additional guarantees of the addressable tiers: dram, mapped copies, DAX.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "index/base/buffer.h"
#include "index/tiers/stream_copy.h"
#include "index/tiers/testing/tier_fixture.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

TEST(StreamCopy, CopiesJustWhatItIsAskedFor) {
  constexpr std::size_t kMost = 300;
  std::vector<std::byte> from(kMost + 64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(Random(7, i));
  for (std::size_t bytes = 0; bytes <= kMost; ++bytes) {
    const std::size_t shift = bytes % 64, source = bytes % 17;
    std::vector<std::byte> to(kMost + 128, std::byte{0x5a});
    std::vector<std::byte> expected = to;
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source), bytes,
                expected.begin() + static_cast<std::ptrdiff_t>(shift));
    StreamCopy(to.data() + shift, from.data() + source, bytes);
    ASSERT_EQ(to, expected) << bytes;
  }
}

TEST(Dram, RefusesWhatCannotFitBeforeItAllocates) {
  const std::byte one{};
  const absl::Status status = PlaceIn("dram", {std::span(&one, std::size_t{1} << 50), 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1125899906842624 bytes"));
}

TEST(Dram, ServesUnlockedWithAWarningWhereLockingIsForbidden) {
  if (!kMlockWorks) GTEST_SKIP() << "mlock does nothing under this sanitizer";
  const Source source(3_MiB);
  const int fate = FateOfChild([&] {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_MEMLOCK, &none) != 0) return 2;
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 3;
    const auto region = PlaceIn("dram", source.get());
    if (!region.ok() || !SameBytes(region->bytes(), source.bytes())) return 4;
    if (region->Where().huge == 1.0 && region->warning().empty())
      return 0;  // from the pool of 2 MiB pages: nothing to lock
    return absl::StrContains(region->warning(), "not locked") &&
                   absl::StrContains(region->warning(), "RLIMIT_MEMLOCK is 0 B")
               ? 0
               : 5;
  });
  EXPECT_EQ(fate, 1000);
}

/// Free 2 MiB pages in the kernel's pool.
int FreePoolPages() {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  int pages = 0;
  file >> pages;
  return pages;
}

TEST(Dram, TakesThePoolsPagesWhileItHasEnough) {
  const int free = FreePoolPages();
  if (free < 2)
    GTEST_SKIP() << "the kernel's pool of 2 MiB pages is empty: echo 8 > /proc/sys/vm/nr_hugepages";
  const Source small(3_MiB);
  {
    const auto region = PlaceIn("dram", small.get());
    ASSERT_TRUE(region.ok()) << region.status();
    EXPECT_EQ(FreePoolPages(), free - 2);
    EXPECT_TRUE(SameBytes(region->bytes(), small.bytes()));
    EXPECT_THAT(region->Where().ToString(), HasSubstr("2 MiB pages 100 %, locked"));
  }
  EXPECT_EQ(FreePoolPages(), free);
  if (free > 64) return;
  const Source large(static_cast<std::size_t>(free) * 2_MiB + 1);
  const auto region = PlaceIn("dram", large.get());
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(FreePoolPages(), free) << "too small: ordinary memory";
  EXPECT_TRUE(SameBytes(region->bytes(), large.bytes()));
}

TEST(Mapped, ReadsOnlyWhatIsTouched) {
  const Source source(16_MiB);
  const auto region = PlaceIn("mapped", source.get());
  ASSERT_TRUE(region.ok());
  const volatile std::byte* first = region->data();
  (void)*first;
  const MemoryResidency where = region->Where();
  if (!where.error.empty()) GTEST_SKIP() << where.ToString();
  EXPECT_GT(where.present, 0.0);
  EXPECT_LT(where.present, 0.5) << "a fault may map 2 MiB, not the file";
}

TEST(Region, SaysOfManyWhatItSaysOfEach) {
  const Source large(4_MiB), small(20_KiB);
  const auto first = PlaceIn("dram", large.get()), second = PlaceIn("dram", small.get()),
             third = PlaceIn("mapped", large.get());
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  const Region empty;
  const Region* const regions[] = {&*first, &empty, &*second, &*third};
  const std::vector<MemoryResidency> all = Region::Where(regions);
  ASSERT_EQ(all.size(), std::size(regions));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const MemoryResidency one = regions[i]->Where();
    EXPECT_EQ(all[i].bytes, regions[i]->size());
    EXPECT_EQ(all[i].nodes, one.nodes) << i;
    EXPECT_EQ(all[i].locked, one.locked) << i;
    EXPECT_EQ(all[i].huge.has_value(), one.huge.has_value()) << i;
  }
  EXPECT_TRUE(all[0].huge.has_value() && all[2].huge.has_value()) << "they have their own mappings";
}

class MappedCopy : public ::testing::Test {
 protected:
  void TearDown() override { ::unlink(path_.c_str()); }
  absl::StatusOr<Region> Place(const PlacementSource& source) {
    return PlaceIn(absl::StrCat("mapped:", path_), source);
  }
  ino_t Inode() const {
    struct stat status {};
    return ::stat(path_.c_str(), &status) == 0 ? status.st_ino : 0;
  }
  std::string path_ = TestPath("copy");
};

TEST_F(MappedCopy, IsUsedAgainWhileTheChecksumAgrees) {
  const Source source(1_MiB + 7);
  const auto first = Place(source.get());
  ASSERT_TRUE(first.ok()) << first.status();
  const ino_t inode = Inode();
  ASSERT_TRUE(Place(source.get()).ok());
  EXPECT_EQ(Inode(), inode);
  const auto begin = source.bytes().first(4096);
  const auto other = Place({begin, ChecksumOf(begin)});
  ASSERT_TRUE(other.ok());
  EXPECT_NE(Inode(), inode) << "another source: copied anew";
  EXPECT_TRUE(SameBytes(other->bytes(), begin));
  EXPECT_TRUE(SameBytes(first->bytes(), source.bytes()))
      << "whoever has the old copy open keeps it";
}

TEST_F(MappedCopy, LeavesForeignFilesAlone) {
  const Source source(8192);
  for (const char* kind : {"mapped:", "nvme:"}) {
    for (const std::string& foreign : {std::string("precious"), std::string(8192 + 4096, 'x')}) {
      std::ofstream(path_, std::ios::binary) << foreign;
      const absl::Status status = PlaceIn(absl::StrCat(kind, path_), source.get()).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
      EXPECT_EQ(*ReadTextFile(path_, 1_MiB), foreign);
    }
  }
}

TEST(Dax, SaysWhatToDoWhereTheFileSystemDoesNotDoIt) {
  const Source source(8192);
  const std::string path = TestPath("dax");
  const auto region = PlaceIn(absl::StrCat("dax:", path), source.get());
  if (region.ok()) {
    ::unlink(path.c_str());
    GTEST_SKIP() << "this file system does DAX";
  }
  EXPECT_EQ(region.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(region.status().message()), HasSubstr(absl::StrCat("does not do DAX")));
  EXPECT_THAT(std::string(region.status().message()), HasSubstr(absl::StrCat("use mapped:", path)));
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "nothing was copied";
}

TEST(Dax, TakesNoOtherDevice) {
  const Source source(8192);
  for (const char* path : {"/dev/null", "/dev/zero", "/dev"}) {
    const absl::Status status = PlaceIn(absl::StrCat("dax:", path), source.get()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("devdax node"));
  }
  EXPECT_EQ(PlaceIn("dax:/nowhere/x", source.get()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hmann
