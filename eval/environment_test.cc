#include "eval/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "index/distance/distance.h"

namespace hmann {
namespace {

TEST(Environment, SaysWhatThisMachineSays) {
  const nlohmann::ordered_json environment = DescribeEnvironment();
  std::ifstream cpuinfo("/proc/cpuinfo");
  const std::string text((std::istreambuf_iterator<char>(cpuinfo)), {});
  const std::string cpu = environment["cpu"].get<std::string>();
  if (text.find("model name") != std::string::npos) {
    EXPECT_NE(cpu, "unknown");
    EXPECT_THAT(text, testing::HasSubstr(cpu));
  }
  EXPECT_EQ(environment["simd"], std::string(*ChosenSimd()));
  EXPECT_GE(environment["cores"].get<int>(), 1);
  EXPECT_GT(environment["memory_bytes"].get<std::uint64_t>(), 1u << 20);
  EXPECT_THAT(environment["kernel"].get<std::string>(), testing::StartsWith("Linux "));
  EXPECT_THAT(environment["huge_pages"].get<std::string>(), testing::AnyOf("always", "madvise", "never", "unknown"));
  EXPECT_THAT(environment["time"].get<std::string>(), testing::MatchesRegex("20..-..-..T..:..:..Z"));
}

}  // namespace
}  // namespace hmann
