#include "index/tune/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/base/units.h"
#include "index/tune/probes.h"

namespace hmann {
namespace {

using testing::HasSubstr;

class TempFile {
 public:
  explicit TempFile(const std::string& name)
      : path_(absl::StrCat(testing::TempDir(), "/", name, ".", getpid())) {}
  ~TempFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }
  void Write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

 private:
  std::string path_;
};

TEST(FigureOf, IsMedianAndQuartiles) {
  EXPECT_EQ(FigureOf({}).median, 0);
  EXPECT_EQ(FigureOf({7}).median, 7);
  EXPECT_EQ(FigureOf({7}).spread, 0);
  EXPECT_EQ(FigureOf({3, 1, 2}).median, 2);
  EXPECT_DOUBLE_EQ(FigureOf({10, 20, 30, 40, 50}).spread, 20.0 / 30);
  EXPECT_TRUE(FigureOf({10, 20, 30, 40, 50}).noisy());
  EXPECT_EQ(FigureOf({100, 100, 100, 100, 900}).spread, 0) << "one outlier is not spread";
}

TEST(Rounded, KeepsTheDigitsThatTheSpreadAllows) {
  EXPECT_EQ(Rounded({92.3456, 0.04}), 92);
  EXPECT_EQ(Rounded({92.3456, 0.3}), 90);
  EXPECT_EQ(Rounded({92.3456, 5}), 90) << "one digit always stays";
  EXPECT_EQ(Rounded({92.3456, 0}), 92.35) << "never more than four";
  EXPECT_EQ(Rounded({1234567, 0.01}), 1235000);
  EXPECT_EQ(Rounded({0.123456, 0.02}), 0.123);
  EXPECT_EQ(Rounded({0, 0}), 0);
}

TEST(Probes, RunsInTurnsAndKeepsTheFirstError) {
  std::vector<std::string> order;
  Figure a, b, c;
  Probes probes;
  double next = 0;
  probes.Add({&a}, [&](auto) -> std::vector<double> {
    order.push_back("a");
    return {++next};
  });
  probes.Add({&b, &c}, [&](auto) -> std::vector<double> {
    order.push_back("b");
    return {5, 6};
  });
  Progress quiet(Progress::Show::kNever);
  ASSERT_TRUE(probes.Run(3, std::chrono::nanoseconds(1), quiet).ok());
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "a", "b", "a", "b", "a", "b"}))
      << "the first round does not count";
  EXPECT_EQ(a.median, 3) << "of 2, 3, 4";
  EXPECT_EQ(c.median, 6);
  EXPECT_EQ(probes.figures().size(), 3u);
  probes.Add({&a}, [](auto) -> absl::StatusOr<std::vector<double>> {
    return absl::DataLossError("gone");
  });
  EXPECT_EQ(probes.Run(3, std::chrono::nanoseconds(1), quiet).message(), "gone");
}

TEST(MakeLoadChain, IsOneCycleThroughAllLines) {
  const absl::StatusOr<Buffer> chain = MakeLoadChain(1_MiB);
  ASSERT_TRUE(chain.ok());
  std::vector<bool> seen(1_MiB / 64);
  std::uint32_t line = 0;
  for (std::size_t step = 0; step < seen.size(); ++step) {
    ASSERT_FALSE(seen[line]) << "after " << step;
    seen[line] = true;
    line = *reinterpret_cast<const std::uint32_t*>(chain->data() + std::size_t{64} * line);
    ASSERT_LT(line, seen.size());
  }
  EXPECT_EQ(line, 0u);
}

DeviceProfile SmallProfile() {
  DeviceProfile profile;
  profile.machine = ThisMachine();
  profile.noise = {7, 0.02, 0.5, 0.01, 0.25};
  profile.seconds = 4.5;
  MemoryProfile dram{"dram",
                     {{"2MiB", {90, 0.01}}, {"4KiB", {130, 0.3}}},
                     {{1, {90, 0.01}}, {8, {20, 0.02}}},
                     {12, 0.03}};
  profile.memory = {dram};
  profile.blocks = {{"nvme",
                     "O_DIRECT from \"x\"",
                     1 << 28,
                     {{1, {41, 0.01}, {24000, 0.01}}, {8, {130, 0.01}, {60000, 0.01}}}}};
  return profile;
}

TEST(Profile, ReadsWhatItWrote) {
  const TempFile file("profile");
  const DeviceProfile wrote = SmallProfile();
  ASSERT_TRUE(WriteProfile(wrote, file.path()).ok());
  const absl::StatusOr<DeviceProfile> read = ReadProfile(file.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(MachineDifference(read->machine, wrote.machine), "");
  ASSERT_NE(read->Memory("dram"), nullptr);
  EXPECT_EQ(read->Memory("dram")->dependent_load[1].page, "4KiB");
  EXPECT_TRUE(read->Memory("dram")->dependent_load[1].dependent_load_ns.noisy());
  ASSERT_NE(read->Block("nvme"), nullptr);
  EXPECT_EQ(read->Block("nvme")->depths[1].reads_per_s.median, 60000);
  EXPECT_EQ(read->Block("nvme")->device, wrote.blocks[0].device);
  EXPECT_EQ(read->Block("dram"), nullptr);
  EXPECT_EQ(read->noise.busy_share, 0.25);
  const TempFile again("profile_again");
  ASSERT_TRUE(WriteProfile(*read, again.path()).ok());
  EXPECT_EQ(*ReadTextFile(again.path(), 1_MiB), *ReadTextFile(file.path(), 1_MiB))
      << "rounding is done once";
}

TEST(Profile, LooksUpWhatIsBetween) {
  const DeviceProfile profile = SmallProfile();
  const MemoryProfile& dram = *profile.Memory("dram");
  EXPECT_EQ(NsPerLine(dram, 1), 90);
  EXPECT_EQ(NsPerLine(dram, 4.5), 55);
  EXPECT_EQ(NsPerLine(dram, 100), 20);
}

TEST(Profile, NamesWhatDiffersOnAnotherMachine) {
  const MachineIdentity here{"CPU A", 2, 16_GiB, "avx512"};
  EXPECT_EQ(MachineDifference(here, here), "");
  EXPECT_EQ(MachineDifference({"CPU A", 2, 16_GiB + 100_MiB, "avx512"}, here), "")
      << "another kernel keeps more for itself";
  const std::string clauses = MachineDifference({"CPU B", 8, 64_GiB, "avx2"}, here);
  for (const char* word : {"CPU CPU B, here CPU A", "8 usable cores, here 2",
                           "64.0 GiB of memory, here 16.0 GiB", "kernels avx2, here avx512"}) {
    EXPECT_THAT(clauses, HasSubstr(word));
  }
}

TEST(Profile, BadFilesAreNamed) {
  const TempFile file("bad_profile");
  EXPECT_EQ(ReadProfile(file.path()).status().code(), absl::StatusCode::kNotFound);
  const auto expect = [&](const std::string& text, const std::string& word) {
    file.Write(text);
    const absl::Status status = ReadProfile(file.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr(file.path()), HasSubstr(word)));
  };
  expect("", "found 0 bytes");
  expect("no json", "found 7 bytes");
  expect("[]", "expected an object");
  expect("{}", ".hmann_profile: expected a whole number from 0 to 1000000, found nothing");
  expect(R"({"hmann_profile": 9})", "expected version 1, found 9");
  ASSERT_TRUE(WriteProfile(SmallProfile(), file.path()).ok());
  const std::string good = *ReadTextFile(file.path(), 1_MiB);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  expect(replaced("\"loads\": 1,", "\"loads\": 9,"), "loads in flight from 1 on");
  expect(replaced("\"loads\": 8,", "\"loads\": 1,"), "ascending loads in flight");
  expect(replaced("\"depth\": 1,", "\"depth\": -1,"),
         "blocks[0].depths[0].depth: expected a whole number from 0");
  expect(replaced("\"median\": 90.0", "\"median\": \"90\""),
         "memory[0].dependent_load[0].dependent_load_ns.median");
  expect(replaced("\"cores\"", "\"kernels\""), "machine.cores");
}

// What a machine can do is not known here; that each figure is there and in order of
// magnitude is.
TEST(MeasureProfile, GivesEveryFigure) {
  const TempFile beside("profile_scratch");
  ProfileOptions options;
  options.tiers = {"emulated:lat=2000ns,lines=8", "dram", "nvme"};
  options.scratch = beside.path();
  options.repeats = 3;
  options.memory_bytes = 16_MiB;
  options.budget = std::chrono::milliseconds(300);
  Progress quiet(Progress::Show::kNever);
  const absl::StatusOr<DeviceProfile> profile = MeasureProfile(options, quiet);
  if (absl::IsFailedPrecondition(profile.status()))
    GTEST_SKIP() << profile.status();  // no constant tick counter, no O_DIRECT
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->memory.size(), 2u);
  for (const MemoryProfile& memory : profile->memory) {
    for (const PageLatency& page : memory.dependent_load)
      EXPECT_GT(page.dependent_load_ns.median, 1) << memory.tier << page.page;
    EXPECT_EQ(memory.in_flight.front().loads, 1u);
    EXPECT_EQ(memory.in_flight.back().loads, 32u);
    for (const LoadsInFlight& point : memory.in_flight)
      EXPECT_GT(point.ns_per_line.median, 0) << memory.tier << point.loads;
    EXPECT_GT(memory.bandwidth_gb_per_s.median, 0.01);
  }
  // The emulator never lets a load arrive early.
  const MemoryProfile& slow = *profile->Memory(options.tiers[0]);
  EXPECT_GE(slow.dependent_load[0].dependent_load_ns.median, 2000);
  EXPECT_GE(NsPerLine(slow, 32), 2000.0 / 8 * 0.99);
  ASSERT_EQ(profile->blocks.size(), 1u);
  EXPECT_EQ(profile->blocks[0].depths.size(), 7u);
  for (const BlockDepth& point : profile->blocks[0].depths) {
    EXPECT_GT(point.read_us.median, 0.1) << point.depth;
    EXPECT_GT(point.reads_per_s.median, 1) << point.depth;
  }
  EXPECT_EQ(profile->noise.repeats, 3);
  EXPECT_FALSE(std::ifstream(absl::StrCat(testing::TempDir(), "/.hmann-profile.", getpid())).good())
      << "the temporary file is gone";
}

TEST(MeasureProfile, RefusesWhatItCannotMeasure) {
  Progress quiet(Progress::Show::kNever);
  ProfileOptions options;
  options.repeats = 1;
  options.memory_bytes = 8_MiB;
  EXPECT_THAT(std::string(MeasureProfile(options, quiet).status().message()), HasSubstr("repeats"));
  options.repeats = 3;
  options.tiers = {"nvme"};
  EXPECT_THAT(std::string(MeasureProfile(options, quiet).status().message()),
              HasSubstr("is measured on a file"));
  options.tiers = {"dax:/dev/null"};
  EXPECT_EQ(MeasureProfile(options, quiet).status().code(), absl::StatusCode::kUnimplemented);
  options.tiers = {"tape"};
  EXPECT_EQ(MeasureProfile(options, quiet).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hmann
