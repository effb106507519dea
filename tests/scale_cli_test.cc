// `hmann eval scale` as its help shows it, killed on the way.
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
using testing::Not;

/// The words of the example in the help, with another folder, made shorter.
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

/// How many sizes are in the lines of a file.
int SizesOf(const std::string& lines) {
  const std::vector<std::string> parts = absl::StrSplit(lines, "{\"kind\":\"data\"");
  return static_cast<int>(parts.size()) - 1;
}

/// Waits for a file or folder of a command that is at work.
void Await(const fs::path& path) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!fs::exists(path)) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << path;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(ScaleCommand, CtrlCAtEverySizeAndTheSameCommandGoesOn) {
  const TestFolder folder("scale_cli");
  const fs::path out = folder / "out";
  std::vector<std::string> command = Example(out.string());
  ASSERT_FALSE(command.empty());
  std::string before;
  for (const char* size : {"size-1000", "size-5000", "size-10000", "size-15000"}) {
    // Before anything stands there, and again beside a built index.
    for (const char* reached : {"", "60.hmann.json"}) {
      SCOPED_TRACE(absl::StrCat(size, " ", reached));
      Program stopped(command);
      ASSERT_NO_FATAL_FAILURE(Await(out / size / reached));
      stopped.Signal(SIGINT);
      const Outcome outcome = stopped.Wait();
      EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("stopping"));
      const std::string lines = ReadFile(out / "results.jsonl");
      EXPECT_TRUE(lines.starts_with(before)) << "what was done stays";
      before = lines;
    }
  }
  EXPECT_EQ(SizesOf(before), 3) << "three sizes are done";
  const Outcome done = RunProgram(command);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("10000 vectors, done before"),
                              Not(HasSubstr("60 bytes: building")), HasSubstr("at recall 0.95")));
  EXPECT_TRUE(ReadFile(out / "results.jsonl").starts_with(before));
}

TEST(ScaleCommand, KilledBehindASizeItGoesOnWithTheNext) {
  const TestFolder folder("scale_cli");
  const std::string lines = folder / "out/results.jsonl";
  std::vector<std::string> command = Example(folder / "out");
  ASSERT_FALSE(command.empty());
  {
    Program killed(command);
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!(fs::exists(lines) && ReadFile(lines).find("\"data\":1000,") != std::string::npos)) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    killed.Signal(SIGKILL);
    EXPECT_EQ(killed.Wait().signal, SIGKILL);
  }
  const std::string before = ReadFile(lines);
  command.emplace_back("--json");
  const Outcome done = RunProgram(command);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("1000 vectors, done before"),
                              HasSubstr("size 4 of 4: 15000 vectors, made up")));
  EXPECT_TRUE(ReadFile(lines).starts_with(before)) << "what was done is not done again";
  const auto figures = nlohmann::json::parse(done.out, nullptr, false);
  ASSERT_TRUE(figures.is_object());
  EXPECT_EQ(figures["sizes"].size(), 4u);
  EXPECT_EQ(figures["sizes"][3]["made_up"], true);
  EXPECT_THAT(ReadFile(folder / "out/report.html"), HasSubstr("Growth over sizes: base.u8bin"));
}

}  // namespace
}  // namespace hmann
