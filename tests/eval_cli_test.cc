// `hmann eval` is a program of its own, behind the same command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

TEST(Eval, HelpIsOfItsCommands) {
  const Outcome eval = Hmann({"eval", "--help"});
  EXPECT_EQ(eval.exit_code, 0) << eval.err;
  EXPECT_THAT(eval.out, AllOf(HasSubstr("Usage: hmann eval"), HasSubstr("memory-mode"),
                              HasSubstr("Example:\n  hmann eval sweep")));
  EXPECT_THAT(eval.out, Not(HasSubstr("completion"))) << "what hmann asks for is not for people";
  for (const auto& [command, option] : {std::pair("sweep", "--contestants"),
                                        {"tiers", "--in-flight"},
                                        {"disk", "--in-flight"},
                                        {"scale", "--fast-bytes"},
                                        {"load", "--rate"}}) {
    const Outcome help = Hmann({"eval", command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << help.err;
    EXPECT_THAT(help.out,
                AllOf(HasSubstr(absl::StrCat("Usage: hmann eval ", command)), HasSubstr(option)))
        << command;
  }
}

TEST(Eval, ErrorsAndExitCodesAreThoseOfHmann) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{}, "subcommand"},
      {{"--colour"}, "subcommand"},
      {{"swep"}, "subcommand"},
      {{"sweep"}, "--queries"},
      {{"sweep", "--queries", "q", "--out", "o"}, "--base, --index or --server"},
      {{"scale", "--sizes", "1k", "--base", "b", "--out", "o"}, "--queries"},
      {{"scale", "--fast-memory", "much"}, "--fast-memory"},
      {{"sweep", "--rounds", "0", "--base", "b", "--queries", "q", "--out", "o"}, "--rounds"},
      {{"memory-mode", "--", "extra words"}, "extra words"}};
  for (const auto& [more, word] : wrong) {
    std::vector<std::string> arguments = {"eval"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome ran = Hmann(arguments);
    EXPECT_EQ(ran.exit_code, 2) << ran.err;
    EXPECT_THAT(ran.out, IsEmpty());
    EXPECT_THAT(ran.err, HasSubstr(word));
  }
  const TestFolder folder("eval_error");
  const Outcome failed = Hmann({"eval", "sweep", "--base", folder / "absent.fbin", "--queries",
                                "q.fbin", "--out", folder / "out"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, AllOf(StartsWith("hmann eval: "), HasSubstr("absent.fbin")));
  const Outcome done = Hmann({"eval", "memory-mode", "--json"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("{"));
}

/// A program of somebody else's inside the same limit, hmann beside itself, ratios to the
/// former. Skipped where no memory cgroup can be made.
TEST(Eval, OnADiskOthersTakePart) {
  const TestFolder folder("eval_disk");
  const std::string index = folder / "s.hmann", base = "datasets/sample/base.u8bin";
  const Outcome built = Hmann({"build", "--base", base, "--out", index, "--no-calibrate"});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  const std::string adapter =
      (fs::path(HmannProgram()).parent_path() / "../libexec/hmann/hnswlib_adapter").string();
  const std::vector<std::string> command = absl::StrSplit(
      absl::StrCat("eval disk --queries datasets/sample/query.u8bin --groundtruth "
                   "datasets/sample/query.gt100 --query-rows 20 --rounds 1 --memory-limit 64MiB "
                   "--again --reference other --search-threads 1 --disk-time 50ms --json "
                   "--build-settings other={\"distance\":\"u8\",\"level0\":\"mapped\"} "
                   "--settings other=[{\"ef\":10},{\"ef\":160}] --adapter other=",
                   adapter, " --index ", index, " --out ", folder / "out"),
      ' ');
  const Outcome without = Hmann(command);
  EXPECT_EQ(without.exit_code, 2) << without.err;
  EXPECT_THAT(without.err, HasSubstr("--base"));
  std::vector<std::string> whole = command;
  whole.insert(whole.end(), {"--base", base});
  const Outcome ran = Hmann(whole);
  if (ran.err.find("cgroup") != std::string::npos && ran.exit_code != 0) GTEST_SKIP() << ran.err;
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto figures = nlohmann::json::parse(ran.out, nullptr, false);
  ASSERT_TRUE(figures.is_object());
  std::map<std::string, int> rows;
  for (const auto& row : figures["disk"]["rows"]) {
    const auto name = row["contestant"].get<std::string>();
    if (row["qps"].is_null()) continue;
    ++rows[name];
    EXPECT_GT(row["cpu_us"].get<double>(), 0) << row;
    if (name == "other, 1 thread") {
      EXPECT_EQ(row["ratio"], 1.0);
    }
  }
  EXPECT_THAT(rows, IsSupersetOf({Pair("hmann quantised, 1 thread", 3),
                                  Pair("hmann quantised again, 1 thread, 8 in flight", 3),
                                  Pair("other, 1 thread", 3)}));
  EXPECT_EQ(figures["disk"]["memory"]["contestants"].size(), 4u);
}

/// What the script that `program` prints makes of a command line.
std::string Complete(const std::string& program, const std::string& words, int at) {
  const TestFolder folder("eval_completion");
  const Outcome script = RunProgram({program, "completion", "bash"});
  EXPECT_EQ(script.exit_code, 0) << script.err;
  EXPECT_THAT(script.err, IsEmpty());
  WriteFile(folder / "hmann.bash", script.out);
  return RunProgram({"/bin/bash", "-ec",
                     absl::StrCat("source ", folder / "hmann.bash", "; COMP_WORDS=(", words,
                                  "); COMP_CWORD=", at, "; _hmann; echo ${COMPREPLY[@]}")})
      .out;
}

TEST(Eval, IsInTheManualAndCompleted) {
  EXPECT_EQ(Complete(HmannProgram(), "hmann eval swe", 2), "sweep\n");
  EXPECT_EQ(Complete(HmannProgram(), "hmann eval sweep --contest", 3), "--contestants\n");
  const TestFolder folder("eval_man");
  const Outcome man = Hmann({"man", "--out", folder.path().string()});
  EXPECT_EQ(man.exit_code, 0) << man.err;
  EXPECT_THAT(man.err, IsEmpty());
  EXPECT_THAT(folder.Files(), AllOf(IsSupersetOf({"hmann.1", "hmann-build.1", "hmann-eval.1",
                                                  "hmann-eval-sweep.1", "hmann-eval-disk.1"}),
                                    Not(testing::Contains("hmann-eval-man.1"))));
  EXPECT_THAT(ReadFile(folder / "hmann-eval.1"), HasSubstr("hmann\\-eval\\-sweep"));
  EXPECT_THAT(ReadFile(folder / "hmann-eval-sweep.1"),
              AllOf(HasSubstr("hmann eval sweep"), HasSubstr("\\-\\-contestants")));
}

/// As installed without the component eval.
TEST(Eval, WhereItIsMissingTheRestWorks) {
  const TestFolder folder("no_eval");
  fs::create_directory(folder / "bin");
  const std::string program = folder / "bin/hmann";
  fs::copy_file(HmannProgram(), program);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"sweep", "--help"}, {"memory-mode"}, {}}) {
    std::vector<std::string> command = {program, "eval"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome ran = RunProgram(command);
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_THAT(ran.out, IsEmpty());
    EXPECT_THAT(ran.err,
                AllOf(StartsWith("hmann eval: "), HasSubstr(folder / "libexec/hmann/hmann-eval"),
                      HasSubstr("--component eval")));
  }
  EXPECT_THAT(RunProgram({program, "--help"}).out, HasSubstr("eval"));
  EXPECT_EQ(Complete(program, "hmann bui", 1), "build build-job\n");
  EXPECT_EQ(Complete(program, "hmann ev", 1), "eval\n");
  const Outcome man = RunProgram({program, "man", "--out", folder / "man1"});
  EXPECT_EQ(man.exit_code, 0) << man.err;
  EXPECT_THAT(man.err, HasSubstr(folder / "libexec/hmann/hmann-eval"));
  EXPECT_THAT(ReadFile(folder / "man1/hmann-eval.1"), HasSubstr("hmann eval sweep"));
}

}  // namespace
}  // namespace hmann
