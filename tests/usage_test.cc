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

TEST(Usage, HelpShowsEverydayOptionsAndHelpAllTheRest) {
  for (const char* command : {"build", "search", "tune", "plan", "serve", "query"}) {
    const std::string help = Hmann({command, "--help"}).out,
                      all = Hmann({command, "--help-all"}).out;
    EXPECT_THAT(help, HasSubstr(absl::StrCat("more options: `hmann ", command, " --help-all`")));
    int options = 0;
    for (const auto line : absl::StrSplit(help, '\n'))
      options += absl::StartsWith(line, "  --") ? 1 : 0;
    EXPECT_LE(options, 10) << help;  // eight, and two for help
    for (const std::string& text : {help, all}) {
      for (const auto line : absl::StrSplit(text, '\n')) {
        const bool is_example = absl::StartsWith(line, "  hmann ");
        EXPECT_TRUE(line.size() <= 80 || is_example) << line;
      }
    }
    EXPECT_THAT(all, testing::ContainsRegex("\n(Memory and drives|Graph|Search parameters):\n"));
    EXPECT_GT(all.size(), help.size());
  }
}

TEST(Usage, WordsInOrderNumbersAndNamesOfOthersAreTaken) {
  const TestFolder folder("forgiving");
  const std::string index = folder / "a.hmann";
  const Outcome built =
      Hmann({"build", kBase, index, "--rows", "1e3", "--metric", "euclidean", "--dtype", "uint8"});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  EXPECT_THAT(built.out, HasSubstr("1000 vectors, 128 x u8, l2"));
  const Outcome swapped = Hmann({"search", kQueries, "--queries", index});
  EXPECT_EQ(swapped.exit_code, 1);
  EXPECT_THAT(swapped.err, HasSubstr("an index found, vectors expected"));
  const Outcome answers = Hmann({"search", index, kQueries, "--k", "3"});
  ASSERT_EQ(answers.exit_code, 0) << answers.err;
  EXPECT_THAT(answers.out, AllOf(HasSubstr("query  neighbors: label (distance)"),
                                 HasSubstr("200 queries, k 3")));
  EXPECT_THAT(answers.out, Not(HasSubstr("p99_us")));
  const Outcome stats = Hmann({"search", index, kQueries, "--stats"});
  EXPECT_THAT(stats.out, HasSubstr("p99_us"));
  EXPECT_EQ(Hmann({"plan", "--rows", "200M", "--dim", "128", "--fast-memory", "48gb"}).exit_code,
            0);
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
  IsWrongUsage(Hmann({"search", "a.hmann", "--queires", "q"}), "did you mean '--queries'?");
  IsWrongUsage(Hmann({"data", "covert", "a", "b"}), "did you mean 'convert'?");
  IsWrongUsage(Hmann({"data", "sweep"}), "expected list, fetch, generate, groundtruth");
  IsWrongUsage(Hmann({"verify"}), "INDEX");
  IsWrongUsage(Hmann({"build", "--base", kBase}), "--out");
  const std::vector<std::pair<std::vector<std::string>, std::string>> build = {
      {{"--m", "1"}, "--m"},
      {{"--promote", "1"}, "--promote"},
      {{"--promote", "0"}, "--promote"},
      {{"--metric", "l7"}, "l7"},
      {{"--fast-memory", "lots"}, "lots"},
      {{"--buld-memory", "1GiB"}, "no option '--buld-memory'; did you mean '--build-memory'?"},
      {{"--promote", "16%"}, "as 0.16"},
      {{"--m"}, "--m: expected a value"},
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
  EXPECT_EQ(complete("hmann build --metric ''", 3).out, "l2 ip cosine\n");
  EXPECT_EQ(complete("hmann search a.hmann --sq ''", 4).out, "0 4 8\n");
  EXPECT_EQ(complete("hmann build --base ''", 3).out, "\n");
  EXPECT_EQ(complete("hmann data groundtruth --metric c", 4).out, "cosine\n");
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
