// The program's usage: help, wrong arguments, completion, manual pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/program.h"

namespace hmann {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const char kBase[] = "datasets/sample/base.u8bin";
const char kQueries[] = "datasets/sample/query.u8bin";

void IsWrongUsage(const Outcome& ran, const std::string& word) {
  EXPECT_EQ(ran.exit_code, 2) << ran.err;
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_THAT(ran.err, HasSubstr(word));
}

std::vector<std::string> Commands() {
  std::vector<std::string> commands;
  const Outcome help = Hmann({"--help"});
  bool listed = false;
  for (const auto line : absl::StrSplit(help.out, '\n')) {
    if (listed && absl::StartsWith(line, "  ") && line[2] != ' ')
      commands.emplace_back(*absl::StrSplit(line.substr(2), ' ').begin());
    listed = listed || line == "Subcommands:";
  }
  return commands;
}

TEST(Usage, HelpOfEveryCommandHasAnExample) {
  const std::vector<std::string> commands = Commands();
  EXPECT_THAT(commands,
              testing::IsSupersetOf({"build", "info", "verify", "search", "completion", "man"}));
  for (const std::string& command : commands) {
    const Outcome help = Hmann({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, AllOf(HasSubstr("Example:"), HasSubstr(absl::StrCat("hmann ", command))))
        << command;
  }
}

TEST(Usage, VersionIsOnStdout) {
  for (const char* flag : {"-V", "--version"}) {
    const Outcome ran = Hmann({flag});
    EXPECT_EQ(ran.exit_code, 0);
    EXPECT_THAT(ran.out, testing::MatchesRegex("hmann [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  }
}

TEST(Usage, WrongUsageIsExitCodeTwo) {
  IsWrongUsage(Hmann({}), "Subcommands");
  IsWrongUsage(Hmann({"serach"}), "did you mean 'search'?");
  IsWrongUsage(Hmann({"xylophone"}), "no command 'xylophone'");
  IsWrongUsage(Hmann({"--color"}), "--color");
  IsWrongUsage(Hmann({"info"}), "INDEX");
  IsWrongUsage(Hmann({"verify"}), "INDEX");
  IsWrongUsage(Hmann({"build", "--base", kBase}), "--out");
  const std::vector<std::pair<std::vector<std::string>, std::string>> build = {
      {{"--m", "1"}, "--m"},
      {{"--promote", "1"}, "--promote"},
      {{"--promote", "0"}, "--promote"},
      {{"--metric", "l7"}, "l7"},
      {{"--fast-memory", "1.5GiB"}, "1.5GiB"},
      {{"--threads", "-1"}, "--threads"},
      {{"--promote", "0.1", "--fast-memory", "1GiB"}, "--fast-memory"},
      {{"extra"}, "extra"}};
  for (const auto& [more, word] : build) {
    std::vector<std::string> arguments = {"build", "--base", kBase, "--out", "never.hmann"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    IsWrongUsage(Hmann(arguments), word);
  }
  const std::vector<std::pair<std::vector<std::string>, std::string>> search = {
      {{"--k", "0"}, "--k"},
      {{"--k", "ten"}, "--k"},
      {{"--mode", "moon"}, "moon"},
      {{"--threads", "0"}, "--threads"},
      {{"--ef-l1", "0"}, "--ef-l1"},
      {{"--out", "a.csv"}, ".csv"},
      {{"--query-threads", "65"}, "--query-threads"}};
  for (const auto& [more, word] : search) {
    std::vector<std::string> arguments = {"search", "never.hmann", "--queries", kQueries};
    arguments.insert(arguments.end(), more.begin(), more.end());
    IsWrongUsage(Hmann(arguments), word);
  }
  EXPECT_FALSE(std::filesystem::exists("never.hmann"));
}

TEST(Usage, WithoutThreadsItWorksOrSaysWhatToDo) {
  const TestFolder folder("threads");
  const std::string index = folder / "a.hmann";
  ASSERT_EQ(Hmann({"build", "--base", kBase, "--out", index, "--no-calibrate"}).exit_code, 0);
  const auto run = [](std::vector<std::string> command) {
    command.insert(command.begin(), HmannProgram());
    RunOptions options;
    options.no_threads = true;
    return RunProgram(command, options);
  };
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, HasSubstr("hmann 0."));
  EXPECT_THAT(version.err, IsEmpty());

  EXPECT_EQ(run({"verify", index}).exit_code, 0);
  EXPECT_EQ(run({"search", index, "--queries", kQueries}).exit_code, 0);
  const Outcome truth = run({"data", "groundtruth", "--base", kBase, "--queries", kQueries,
                             "--threads", "3", "--out", folder / "a.gt"});
  EXPECT_EQ(truth.exit_code, 0) << truth.err;
  EXPECT_EQ(ReadFile(folder / "a.gt"), ReadFile("datasets/sample/query.gt100"));

  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"search", index, "--queries", kQueries, "--threads", "3"},
           {"search", index, "--queries", kQueries, "--prefetch", "helper", "--helpers", "2"},
           {"build", "--base", kBase, "--out", folder / "b.hmann"},
           {"serve", "--index", "a=" + index, "--listen", "127.0.0.1:0"}}) {
    const Outcome refused = run(command);
    EXPECT_EQ(refused.exit_code, 1) << command[0] << ": " << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(": allow more threads (ulimit -u, pids.max"));
  }
}

TEST(Usage, CompletionIsBashThatCompletes) {
  const TestFolder folder("completion");
  const Outcome script = Hmann({"completion", "bash"});
  ASSERT_EQ(script.exit_code, 0) << script.err;
  WriteFile(folder / "hmann.bash", script.out);
  const auto complete = [&](const std::string& words, int at) {
    return RunProgram({"/bin/bash", "-ec",
                       absl::StrCat("source ", folder / "hmann.bash", "; COMP_WORDS=(", words,
                                    "); COMP_CWORD=", at, "; _hmann; echo ${COMPREPLY[@]}")});
  };
  EXPECT_EQ(complete("hmann bui", 1).out, "build build-job\n");
  EXPECT_EQ(complete("hmann search a.hmann --ef-l", 3).out, "--ef-l1 --ef-l0\n");
  EXPECT_THAT(complete("hmann completion ''", 2).out, Not(HasSubstr("build")));
  EXPECT_EQ(Hmann({"completion", "zsh"}).exit_code, 0);
  EXPECT_EQ(Hmann({"completion", "fish"}).exit_code, 2);
}

TEST(Usage, EveryCommandHasAManualPage) {
  const TestFolder folder("man");
  ASSERT_EQ(Hmann({"man", "--out", folder / "man1"}).exit_code, 0);
  for (const std::string& command : Commands()) {
    const std::string page = ReadFile(folder / absl::StrCat("man1/hmann-", command, ".1"));
    EXPECT_THAT(page, AllOf(HasSubstr(".SH NAME"), HasSubstr(".SH EXAMPLE"))) << command;
  }
  EXPECT_THAT(ReadFile(folder / "man1/hmann-search.1"), HasSubstr("\\-\\-ef\\-l1"));
}

}  // namespace
}  // namespace hmann
