/// The conformance suite, which every tier passes, and what each tier promises besides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/base/random.h"
#include "index/base/units.h"
#include "index/tiers/tier.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMlockWorks = false;  // sanitizers replace it by nothing
#else
constexpr bool kMlockWorks = true;
#endif

std::string TestPath(const char* name) { return absl::StrCat(::testing::TempDir(), "/hmann_tiers_", ::getpid(), "_", name); }

/// Random bytes in a mapped file, as an index file is mapped.
class Source {
 public:
  explicit Source(std::size_t bytes) {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(Random(bytes, i));
    std::ofstream(path_, std::ios::binary) << text;
    file_ = *MappedFile::Open(path_);
  }
  ~Source() { ::unlink(path_.c_str()); }
  PlacementSource get() const { return {file_.bytes(), 1234 + file_.bytes().size()}; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }

 private:
  std::string path_ = TestPath("source");
  MappedFile file_;
};

bool SameBytes(std::span<const std::byte> a, std::span<const std::byte> b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

/// What a child process that runs `body` ends with: its signal, or 1000 + its exit code.
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

class EveryTier : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string spec = GetParam() == "mapped:PATH" ? absl::StrCat("mapped:", copy_) : GetParam();
    auto tier = MakeTier(spec);
    if (!tier.ok() && absl::StrContains(tier.status().message(), "no NUMA support")) GTEST_SKIP() << tier.status();
    ASSERT_TRUE(tier.ok()) << tier.status();
    tier_ = *std::move(tier);
    EXPECT_EQ(tier_->traits().name, spec);
    EXPECT_TRUE(tier_->traits().addressable);
  }
  void TearDown() override { ::unlink(copy_.c_str()); }

  Region Place(const Source& source) {
    Progress silent(Progress::Show::kNever);
    auto region = tier_->Place(source.get(), silent);
    EXPECT_TRUE(region.ok()) << region.status();
    return region.ok() ? *std::move(region) : Region();
  }

  std::string copy_ = TestPath("copy");
  std::unique_ptr<Tier> tier_;
};

TEST_P(EveryTier, HoldsTheBytesOfTheSource) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{2_MiB}, std::size_t{9_MiB + 123}}) {
    const Source source(bytes);
    Region region = Place(source);
    EXPECT_TRUE(SameBytes(region.bytes(), source.bytes())) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % 4_KiB, 0u);
    EXPECT_EQ(region.data() == source.bytes().data(), tier_->traits().in_place);
    const Region moved = std::move(region);
    EXPECT_EQ(region.size(), 0u);
    EXPECT_TRUE(SameBytes(moved.bytes(), source.bytes()));
  }
}

TEST_P(EveryTier, IsReadOnly) {
  const Source source(3_MiB + 5);
  const Region region = Place(source);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1_MiB}, region.size() - 1}) {
    auto* place = const_cast<std::byte*>(region.data()) + offset;
    EXPECT_EQ(FateOfChild([&] { return *const_cast<volatile std::byte*>(place) = std::byte{1}, 0; }), SIGSEGV) << offset;
    EXPECT_EQ(FateOfChild([&] { return *const_cast<volatile std::byte*>(place) == source.bytes()[offset] ? 0 : 1; }), 1000);
  }
}

TEST_P(EveryTier, SaysWhereTheBytesAre) {
  const Source source(8_MiB);
  const Region region = Place(source);
  std::uint64_t sum = 0;
  for (const std::byte b : region.bytes()) sum += std::to_integer<std::uint64_t>(b);
  EXPECT_GT(sum, 0u);
  const Whereabouts where = region.Where();
  EXPECT_EQ(where.bytes, 8_MiB);
  EXPECT_EQ(where.file_backed, GetParam().starts_with("mapped"));
  if (!where.error.empty()) GTEST_SKIP() << where.ToString();
  EXPECT_EQ(where.present, 1.0) << "all was read just now";
  double share = 0;
  for (const auto& [node, part] : where.nodes) share += part;
  EXPECT_NEAR(share, 1.0, 1e-9);
  ASSERT_TRUE(where.huge.has_value() && where.locked.has_value());
  EXPECT_GE(*where.huge, 0.0);
  EXPECT_LE(*where.huge, 1.0);
  if (!where.file_backed && kMlockWorks) {
    EXPECT_EQ(*where.locked, region.warning().empty() ? 1.0 : 0.0) << region.warning();
  }
  if (GetParam() == "numa:0") {
    EXPECT_EQ(where.nodes, (std::vector<std::pair<int, double>>{{0, 1.0}}));
  }
  EXPECT_THAT(where.ToString(), HasSubstr("node "));
}

TEST_P(EveryTier, AnEmptySourceGivesAnEmptyRegion) {
  const Source source(0);
  const Region region = Place(source);
  EXPECT_EQ(region.size(), 0u);
  EXPECT_EQ(region.Where().ToString(), "empty");
  EXPECT_EQ(region.warning(), "");
}

TEST_P(EveryTier, GivesItsMemoryBack) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n');
  };
  const Source source(4_MiB);
  { const Region first = Place(source); }
  const auto before = mappings();
  for (int i = 0; i < 20; ++i) const Region region = Place(source);
  EXPECT_LE(mappings(), before + 4);
}

INSTANTIATE_TEST_SUITE_P(Tiers, EveryTier, ::testing::Values("dram", "numa:0", "mapped", "mapped:PATH"), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

TEST(MakeTier, NamesWhatThereIs) {
  for (const char* wrong : {"", "DRAM", "dram:1", "dax:/mnt/x", "nvme:/dev/x", "emulated:lat=300ns", "mapped:", "numa"}) {
    const absl::Status status = MakeTier(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("'", wrong, "': this build has dram, numa:N, mapped and mapped:PATH")));
  }
  for (const char* wrong : {"numa:", "numa:-1", "numa:4096", "numa:x", "numa:99999999999999"}) {
    const absl::Status status = MakeTier(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected a node that this process may use, which are")) << wrong;
  }
}

TEST(Dram, RefusesWhatCannotFitBeforeItAllocates) {
  const std::byte one{};
  Progress silent(Progress::Show::kNever);
  const absl::Status status = (*MakeTier("dram"))->Place({std::span(&one, std::size_t{1} << 50), 0}, silent).status();
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
    Progress silent(Progress::Show::kNever);
    const auto region = (*MakeTier("dram"))->Place(source.get(), silent);
    if (!region.ok() || !SameBytes(region->bytes(), source.bytes())) return 4;
    return absl::StrContains(region->warning(), "not locked") && absl::StrContains(region->warning(), "RLIMIT_MEMLOCK is 0 B") ? 0 : 5;
  });
  EXPECT_EQ(fate, 1000);
}

TEST(Mapped, ReadsOnlyWhatIsTouched) {
  const Source source(16_MiB);
  Progress silent(Progress::Show::kNever);
  const auto region = (*MakeTier("mapped"))->Place(source.get(), silent);
  ASSERT_TRUE(region.ok());
  const volatile std::byte* first = region->data();
  (void)*first;
  const Whereabouts where = region->Where();
  if (!where.error.empty()) GTEST_SKIP() << where.ToString();
  EXPECT_GT(where.present, 0.0);
  EXPECT_LT(where.present, 0.5) << "a fault may map 2 MiB, not the file";
}

class MappedCopy : public ::testing::Test {
 protected:
  void TearDown() override { ::unlink(path_.c_str()); }
  absl::StatusOr<Region> Place(const PlacementSource& source) {
    Progress silent(Progress::Show::kNever);
    return (*MakeTier(absl::StrCat("mapped:", path_)))->Place(source, silent);
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
  const auto other = Place({source.bytes().first(4096), 99});
  ASSERT_TRUE(other.ok());
  EXPECT_NE(Inode(), inode) << "another source: copied anew";
  EXPECT_TRUE(SameBytes(other->bytes(), source.bytes().first(4096)));
  EXPECT_TRUE(SameBytes(first->bytes(), source.bytes())) << "whoever has the old copy open keeps it";
}

TEST_F(MappedCopy, LeavesForeignFilesAlone) {
  const Source source(8192);
  for (const std::string& foreign : {std::string("precious"), std::string(8192 + 4096, 'x')}) {
    std::ofstream(path_, std::ios::binary) << foreign;
    const absl::Status status = Place(source.get()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
    EXPECT_EQ(*ReadTextFile(path_, 1_MiB), foreign);
  }
}

}  // namespace
}  // namespace hmann
