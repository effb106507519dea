#include "eval/report/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "hmann/distance.h"
#include "index/base/cpu.h"

namespace hmann::eval {
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
  EXPECT_EQ(environment["cores"], UsableCores());
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::uint64_t total_kib = 0;
  ASSERT_TRUE(meminfo >> key >> total_kib && key == "MemTotal:");
  EXPECT_NEAR(environment["memory_bytes"].get<double>() / (1024.0 * static_cast<double>(total_kib)),
              1, 0.01);
  EXPECT_THAT(environment["kernel"].get<std::string>(), testing::StartsWith("Linux "));
  std::ifstream huge_pages("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::string choices((std::istreambuf_iterator<char>(huge_pages)), {});
  const std::string huge = environment["huge_pages"].get<std::string>();
  EXPECT_THAT(choices.empty() ? "[unknown]" : choices, testing::HasSubstr("[" + huge + "]"));
  EXPECT_THAT(environment["time"].get<std::string>(),
              testing::MatchesRegex("20..-..-..T..:..:..Z"));
}

TEST(Environment, TheCommandIsWhatAShellTakes) {
  EXPECT_EQ(ShellCommand({"/usr/libexec/hmann/hmann-eval", "sweep", "--out", "a/b.u8bin", "x=1,2"}),
            "hmann eval sweep --out a/b.u8bin x=1,2");
  EXPECT_EQ(ShellCommand({"./hmann", "two words", "", "s={\"k\":[1]}", "$HOME", "it's"}),
            R"(hmann 'two words' '' 's={"k":[1]}' '$HOME' 'it'\''s')");
  EXPECT_EQ(ShellCommand({}), "");
  EXPECT_THAT(DescribeEnvironment()["command"].get<std::string>(),
              testing::StartsWith("environment_test"));
}

}  // namespace
}  // namespace hmann::eval
