// Runs `hmann eval scale` as its help shows it, and kills it on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// The words of the example in the help, with another folder and smaller sizes.
std::vector<std::string> Example(const std::string& out) {
  const std::string help = Hmann({"eval", "scale", "--help"}).out;
  const std::size_t at = help.find("hmann eval scale --base");
  if (at == std::string::npos) return {};
  std::vector<std::string> words =
      absl::StrSplit(help.substr(at, help.find('\n', at) - at), ' ', absl::SkipWhitespace());
  words[0] = HmannProgram();
  for (std::string& word : words) {
    if (word == "build/scale") word = out;
  }
  words.insert(words.end(), {"--query-rows", "60", "--fast-bytes", "60"});
  return words;
}

/// Waits for a file or folder of a running command.
void Await(const fs::path& path) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!fs::exists(path)) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << path;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// Interrupts the command in a different way each time; finished work stays.
TEST(ScaleCommand, StoppedAndKilledTheSameCommandGoesOn) {
  const TestFolder folder("scale_cli");
  const fs::path out = folder / "out";
  std::vector<std::string> command = Example(out.string());
  ASSERT_FALSE(command.empty());
  for (const auto& [size, signal] :
       {std::pair("size-5000", SIGINT), {"size-10000", SIGKILL}, {"size-15000", SIGINT}}) {
    SCOPED_TRACE(size);
    Program stopped(command);
    ASSERT_NO_FATAL_FAILURE(Await(out / size));
    stopped.Signal(signal);
    const Outcome outcome = stopped.Wait();
    if (signal == SIGKILL) {
      EXPECT_EQ(outcome.signal, SIGKILL);
    } else {
      EXPECT_EQ(outcome.signal, signal) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("stopping"));
    }
  }
  command.emplace_back("--json");
  const Outcome done = RunProgram(command);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("10000 vectors, 60 bytes, dram: done before"),
                              HasSubstr("15000 vectors, synthetic, 60 bytes, dram\n")));
  const auto figures = nlohmann::json::parse(done.out, nullptr, false);
  ASSERT_TRUE(figures.is_object());
  EXPECT_EQ(figures["sizes"].size(), 3u);
  EXPECT_EQ(figures["sizes"][2]["synthetic"], true);
  EXPECT_THAT(ReadFile(out / "report.html"), HasSubstr("Growth over sizes: base.u8bin"));
}

}  // namespace
}  // namespace hmann
