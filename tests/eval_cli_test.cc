// `hmann eval` is a separate program behind the same command line.
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
  EXPECT_THAT(eval.out, AllOf(HasSubstr("Usage: hmann eval"), HasSubstr("scale"),
                              HasSubstr("Example:\n  hmann eval sweep")));
  EXPECT_THAT(eval.out, Not(HasSubstr("completion"))) << "what hmann asks for is not for people";
  for (const auto& [command, option] : {std::pair("sweep", "--systems"),
                                        {"tiers", "--in-flight"},
                                        {"disk", "--in-flight"},
                                        {"scale", "--fast-bytes"},
                                        {"report", "--out"},
                                        {"load", "--rate"}}) {
    const Outcome help = Hmann({"eval", command, "--help-all"});
    EXPECT_EQ(help.exit_code, 0) << help.err;
    EXPECT_THAT(help.out,
                AllOf(HasSubstr(absl::StrCat("Usage: hmann eval ", command)), HasSubstr(option)))
        << command;
  }
}

TEST(Eval, ErrorsAndExitCodesAreThoseOfHmann) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{}, "subcommand"},
      {{"--color"}, "no option '--color'"},
      {{"swep"}, "did you mean 'sweep'?"},
      {{"sweep"}, "--queries"},
      {{"sweep", "--queries", "q", "--out", "o"}, "--base, --index or --server"},
      {{"scale", "--sizes", "1k", "--base", "b", "--out", "o"}, "--queries"},
      {{"scale", "--build-memory", "much"}, "--build-memory"},
      {{"sweep", "--rounds", "0", "--base", "b", "--queries", "q", "--out", "o"}, "--rounds"},
      {{"memory-mode"}, "no command 'memory-mode'; expected sweep, tiers"},
      {{"report"}, "files"},
      {{"load", "--", "extra words"}, "--server"}};
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
  EXPECT_THAT(failed.err, AllOf(StartsWith("hmann eval sweep: "), HasSubstr("absent.fbin")));
}

void BuildSample(const std::string& index) {
  ASSERT_EQ(
      Hmann({"build", "--base", "datasets/sample/base.u8bin", "--out", index, "--no-calibrate"})
          .exit_code,
      0);
}

/// A name may be a placement and contain "="; it ends where the JSON begins.
TEST(Eval, ASettingOfAnyPlacementCanBeNamed) {
  const TestFolder folder("eval_names");
  const std::string index = folder / "s.hmann";
  ASSERT_NO_FATAL_FAILURE(BuildSample(index));
  std::vector<std::string> command = {"eval",          "sweep",
                                      "--index",       index,
                                      "--slow",        "emulated:lat=300ns",
                                      "--slow",        "dram",
                                      "--queries",     "datasets/sample/query.u8bin",
                                      "--groundtruth", "datasets/sample/query.gt100",
                                      "--query-rows",  "20",
                                      "--rounds",      "1",
                                      "--targets",     "0.5",
                                      "--json",        "--out",
                                      folder / "out"};
  for (const char* name : {"s on emulated:lat=300ns", "s on dram"}) {
    command.emplace_back("--settings");
    command.push_back(absl::StrCat(name, R"(=[{"mode":"graph","ef_l0":40}])"));
  }
  command.insert(command.end(), {"--build-settings", R"(s on emulated:lat=300ns={"in_flight":4})"});
  const Outcome ran = Hmann(command);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto figures = nlohmann::json::parse(ran.out, nullptr, false);
  ASSERT_EQ(figures["systems"].size(), 2u);
  EXPECT_EQ(figures["systems"][0]["place"]["slow"], "emulated:lat=300ns");
  EXPECT_EQ(figures["systems"][0]["build"]["in_flight"], 4);
  for (const auto& row : figures["systems"]) EXPECT_EQ(row["points"].size(), 1u);
  for (const char* wrong :
       {"s on dram", "s on dram={}", "=[]", "s on emulated:lat=300ns=", "s on dram=[{]"}) {
    command.back() = wrong;
    command[command.size() - 2] = "--settings";
    const Outcome refused = Hmann(command);
    EXPECT_EQ(refused.exit_code, 1) << wrong;
    EXPECT_THAT(refused.err, HasSubstr("expected NAME=[...]")) << wrong;
  }
  command.back() = "nobody=[]";
  EXPECT_THAT(Hmann(command).err, HasSubstr("no system 'nobody' takes part"));
}

/// hmann on a finished, calibrated index, where it takes recalls as settings.
TEST(Eval, AFilterSelectsWhatSystemsMayFind) {
  const TestFolder folder("eval_filter");
  const std::string index = folder / "s.hmann", base = "datasets/sample/base.u8bin",
                    attrs = "datasets/sample/attributes.csv";
  const Outcome built = Hmann({"build", "--base", base, "--out", index, "--attrs", attrs});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  std::vector<std::string> command = absl::StrSplit(
      absl::StrCat("eval sweep --queries datasets/sample/query.u8bin --query-rows 50 --rounds 1 "
                   "--systems faiss-ivf --settings faiss-ivf=[{\"nprobe\":256}] --json --index ",
                   index, " --base ", base, " --out ", folder / "out"),
      ' ');
  command.insert(command.end(), {"--filter", "direction in ('N','E')"});
  const Outcome without = Hmann(command);
  EXPECT_EQ(without.exit_code, 2) << without.err;
  EXPECT_THAT(without.err, HasSubstr("--attrs"));
  command.insert(command.end(), {"--attrs", attrs});
  const Outcome ran = Hmann(command);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto figures = nlohmann::json::parse(ran.out, nullptr, false);
  EXPECT_THAT(figures["title"].get<std::string>(),
              HasSubstr(" rows, direction in (\"E\", \"N\"): base.u8bin"));
  ASSERT_EQ(figures["systems"].size(), 2u);
  for (const auto& system : figures["systems"]) {
    const bool hmann = system["name"] == "s on mapped";
    EXPECT_EQ(system["points"].size(), hmann ? 4u : 1u);
    for (const auto& point : system["points"])
      EXPECT_GE(point["recall"], hmann ? 0.8 : 1.0) << point;
  }
}

/// Two sweeps on one page, and the page of one drawn again; each says its command.
TEST(Eval, ReportsAreDrawnAgainFromTheirFiles) {
  const TestFolder folder("eval_report");
  const std::string index = folder / "s.hmann";
  ASSERT_NO_FATAL_FAILURE(BuildSample(index));
  std::vector<std::string> files;
  for (const std::string ef : {"40", "80"}) {
    const std::string out = folder / ef;
    const Outcome ran =
        Hmann({"eval",          "sweep",
               "--index",       index,
               "--slow",        "dram",
               "--queries",     "datasets/sample/query.u8bin",
               "--groundtruth", "datasets/sample/query.gt100",
               "--query-rows",  "20",
               "--rounds",      "1",
               "--targets",     "0.5",
               "--settings",    absl::StrCat(R"(s on dram=[{"mode":"graph","ef_l0":)", ef, "}]"),
               "--out",         out});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    files.push_back(out + "/results.jsonl");
  }
  const std::string page = ReadFile(folder / "40/report.html");
  EXPECT_THAT(page, HasSubstr("hmann eval sweep --index "));
  fs::remove(folder / "40/report.html");
  const std::string kept = ReadFile(files[0]);
  ASSERT_EQ(Hmann({"eval", "report", files[0]}).exit_code, 0);
  EXPECT_EQ(ReadFile(folder / "40/report.html"), page);
  EXPECT_EQ(ReadFile(files[0]), kept);

  const Outcome both =
      Hmann({"eval", "report", files[0], files[1], "--json", "--out", folder / "both"});
  ASSERT_EQ(both.exit_code, 0) << both.err;
  const auto figures = nlohmann::json::parse(both.out, nullptr, false);
  ASSERT_EQ(figures["systems"].size(), 2u);
  EXPECT_EQ(figures["systems"][0]["name"], "s on dram");
  EXPECT_EQ(figures["systems"][1]["name"], "s on dram (80)");
  EXPECT_EQ(figures["systems"][1]["points"][0]["setting"]["ef_l0"], 80);
  EXPECT_THAT(ReadFile(folder / "both/report.html"), HasSubstr("s on dram (80)"));
  const Outcome again = Hmann({"eval", "report", folder / "both/results.jsonl", "--json"});
  EXPECT_EQ(again.out, both.out) << again.err;
  const Outcome refused = Hmann({"eval", "report", files[0], files[1], "--out", folder / "40"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("would replace"));
  EXPECT_EQ(ReadFile(files[0]), kept);
}

/// A foreign program inside the same limit, next to hmann; ratios are to the former.
/// Skipped if no memory cgroup can be created.
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
                   "--reference other --search-threads 1 --json "
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
  for (const auto& row : figures["systems"]) {
    const auto name = row["name"].get<std::string>();
    for (const auto& at : row["targets"]) {
      if (at["qps"].is_null()) continue;
      ++rows[name];
      EXPECT_GT(at["cpu_us"].get<double>(), 0) << name;
      if (name == "other, 1 thread") {
        EXPECT_EQ(at["ratio"], 1.0);
      }
    }
  }
  EXPECT_THAT(rows, IsSupersetOf({Pair("hmann quantized, 1 thread", 2),
                                  Pair("hmann again quantized, 1 thread, 8 in flight", 2),
                                  Pair("other, 1 thread", 2)}));
  EXPECT_EQ(figures["disk"]["memory"]["systems"].size(), 3u);
  EXPECT_FALSE(figures["noise"].empty());
}

/// The completions that the script printed by `program` gives for a command line.
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
  EXPECT_EQ(Complete(HmannProgram(), "hmann eval sweep --syst", 3), "--systems\n");
  const TestFolder folder("eval_man");
  const Outcome man = Hmann({"man", "--out", folder.path().string()});
  EXPECT_EQ(man.exit_code, 0) << man.err;
  EXPECT_THAT(man.err, IsEmpty());
  EXPECT_THAT(folder.Files(), AllOf(IsSupersetOf({"hmann.1", "hmann-build.1", "hmann-eval.1",
                                                  "hmann-eval-sweep.1", "hmann-eval-disk.1"}),
                                    Not(testing::Contains("hmann-eval-man.1"))));
  EXPECT_THAT(ReadFile(folder / "hmann-eval.1"), HasSubstr("hmann\\-eval\\-sweep"));
  EXPECT_THAT(ReadFile(folder / "hmann-eval-sweep.1"),
              AllOf(HasSubstr("hmann eval sweep"), HasSubstr("\\-\\-systems")));
}

/// As installed without the component eval.
TEST(Eval, WhereItIsMissingTheRestWorks) {
  const TestFolder folder("no_eval");
  fs::create_directory(folder / "bin");
  const std::string program = folder / "bin/hmann";
  fs::copy_file(HmannProgram(), program);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"sweep", "--help"}, {"load"}, {}}) {
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
