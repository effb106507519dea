#include "eval/hardware_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "eval/adapters/lines.h"

namespace hmann::eval {
namespace {

TEST(HardwareLimit, LinesFollowFromCounters) {
  // Rows of 2 lines, lists of 3, codes of half a line.
  EXPECT_NEAR(LinesOf({100, 15, 64}, {128, 129, 32}), 200 + 45 + 32, 1e-12);
}

TEST(HardwareLimit, AMemoryAllowsWhatItsBestRateDoes) {
  const Json memory = {{{"loads", 1}, {"ns_a_line", 80}}, {{"loads", 32}, {"ns_a_line", 10}}};
  EXPECT_NEAR(*MemoryLimitQps(memory, 1000), 100'000, 1e-6);
  EXPECT_FALSE(MemoryLimitQps(memory, std::nullopt).has_value());
  EXPECT_FALSE(MemoryLimitQps(Json::array(), 1000).has_value());
}

TEST(HardwareLimit, ADriveAllowsWhatItsLatencyAndItsRateDo) {
  const Json drive = {{{"depth", 1}, {"iops", 10'000}, {"mean_us", 100}},
                      {{"depth", 8}, {"iops", 40'000}, {"mean_us", 200}},
                      {{"depth", 32}, {"iops", 50'000}, {"mean_us", 640}}};
  EXPECT_NEAR(AtDepth(drive, 4.5).read_us, 150, 1e-9);
  EXPECT_NEAR(AtDepth(drive, 4.5).reads_per_s, 25'000, 1e-9);
  EXPECT_NEAR(AtDepth(drive, 0.5).read_us, 100, 1e-9);
  EXPECT_NEAR(AtDepth(drive, 500).reads_per_s, 50'000, 1e-9);
  // Two rounds of eight reads at 200 us each: 2,500 a second, and at most 40,000 / 16.
  EXPECT_NEAR(*DriveLimitQps(drive, 16, 2, 1), 2'500, 1e-9);
  EXPECT_NEAR(*DriveLimitQps(drive, 2, 2, 1), 5'000, 1e-9) << "by waiting: 2 x 100 us";
  EXPECT_NEAR(*DriveLimitQps(drive, 16, 2, 100), 50'000.0 / 16, 1e-9) << "by its rate";
  EXPECT_FALSE(DriveLimitQps(drive, 0, 0, 1).has_value());
  EXPECT_FALSE(DriveLimitQps(Json::array(), 16, 2, 1).has_value());
}

TEST(HardwareLimit, ADriveIsMeasuredPastThePageCache) {
  const std::string folder = absl::StrCat(testing::TempDir(), "hardware_limit_test.", ::getpid());
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/file";
  std::ofstream(path) << std::string(8 << 20, 'x');
  const absl::StatusOr<Json> drive = MeasureDrive(path, folder);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(drive.ok()) << drive.status();
  EXPECT_EQ((*drive)["path"], path);
  ASSERT_GT((*drive)["depths"].size(), 1u);
  EXPECT_EQ((*drive)["depths"][0]["depth"], 1);
  for (const Json& at : (*drive)["depths"]) {
    EXPECT_GT(at["iops"].get<double>(), 0);
    EXPECT_GT(at["mean_us"].get<double>(), 0);
  }
}

}  // namespace
}  // namespace hmann::eval
