#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "hmann/tune.h"
#include "index/base/file.h"
#include "index/base/units.h"
#include "index/tune/probes.h"
#include "nlohmann/json.hpp"

namespace hmann {
namespace {

using testing::HasSubstr;

class TempFile {
 public:
  explicit TempFile(const std::string& name)
      : path_(absl::StrCat(testing::TempDir(), "/", name, ".", getpid())) {}
  ~TempFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

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
  Figure a, b;
  Probes probes;
  double next = 0;
  probes.Add(&a, [&](auto) {
    order.push_back("a");
    return ++next;
  });
  probes.Add(&b, [&](auto) {
    order.push_back("b");
    return 6.0;
  });
  Progress quiet(Progress::Show::kNever);
  ASSERT_TRUE(probes.Run(3, std::chrono::nanoseconds(1), quiet).ok());
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "a", "b", "a", "b", "a", "b"}))
      << "the first round does not count";
  EXPECT_EQ(a.median, 3) << "of 2, 3, 4";
  EXPECT_EQ(b.median, 6);
  EXPECT_EQ(probes.figures().size(), 2u);
  probes.Add(&a, [](auto) { return absl::DataLossError("gone"); });
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
  profile.memory = {{"dram", {{1, {90, 0.3}}, {8, {20, 0.02}}}, {12, 0.03}, {30, 0.03}}};
  return profile;
}

TEST(Profile, IsWrittenWithItsUnitsAndRounded) {
  const TempFile file("profile");
  ASSERT_TRUE(WriteProfile(SmallProfile(), file.path()).ok());
  const auto json = nlohmann::json::parse(*ReadTextFile(file.path(), 1_MiB));
  EXPECT_EQ(json["hmann_profile"], 2);
  EXPECT_EQ(json["machine"]["cores"], ThisMachine().cores);
  EXPECT_EQ(json["noise"]["busy_share"], 0.25);
  const auto& dram = json["memory"][0];
  EXPECT_EQ(dram["tier"], "dram");
  EXPECT_EQ(dram["in_flight"][0]["ns_per_line"]["noisy"], true);
  EXPECT_FALSE(dram["in_flight"][1]["ns_per_line"].contains("noisy"));
  EXPECT_EQ(dram["in_flight"][1]["ns_per_line"]["median"], 20);
  EXPECT_EQ(dram["bandwidth_gb_per_s"]["median"], 12);
  EXPECT_EQ(dram["peak_gb_per_s"]["median"], 30);
  EXPECT_EQ(dram["thr"], 2.5);
}

// The machine's speed is unknown here, so this checks that each figure is there and in
// its order of magnitude.
TEST(MeasureProfile, GivesEveryFigure) {
  const TempFile beside("profile_scratch");
  ProfileOptions options;
  options.tiers = {"emulated:lat=2000ns,lines=8", "dram", "mapped", "nvme"};
  options.scratch = beside.path();
  options.repeats = 3;
  options.memory_bytes = 16_MiB;
  options.budget = std::chrono::milliseconds(300);
  Progress quiet(Progress::Show::kNever);
  const absl::StatusOr<DeviceProfile> profile = MeasureProfile(options, quiet);
  if (absl::IsFailedPrecondition(profile.status()))
    GTEST_SKIP() << profile.status();  // no constant tick counter
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->memory.size(), 3u);
  for (const MemoryProfile& memory : profile->memory) {
    EXPECT_EQ(memory.in_flight.front().loads, 1u);
    EXPECT_EQ(memory.in_flight.back().loads, 32u);
    for (const LoadsInFlight& point : memory.in_flight)
      EXPECT_GT(point.ns_per_line.median, 0) << memory.tier << point.loads;
    EXPECT_GT(memory.bandwidth_gb_per_s.median, 0.01);
    EXPECT_GT(memory.peak_gb_per_s.median, 0.01);
  }
  ASSERT_EQ(profile->blocks.size(), 1u);
  EXPECT_EQ(profile->blocks[0].file_bytes, 16_MiB);
  EXPECT_EQ(profile->blocks[0].depths.back().depth, 64u);
  for (const BlockDepth& point : profile->blocks[0].depths)
    EXPECT_GT(point.read_us.median, 0) << point.depth;
  // The emulator never lets a load arrive early.
  const MemoryProfile& slow = *profile->Memory(options.tiers[0]);
  EXPECT_GE(slow.in_flight.front().ns_per_line.median, 2000);
  EXPECT_GE(slow.in_flight.back().ns_per_line.median, 2000.0 / 8 * 0.99);
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
  options.tiers = {"mapped"};
  EXPECT_THAT(std::string(MeasureProfile(options, quiet).status().message()),
              HasSubstr("is measured on a file"));
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
