// A whole small sweep on the disk under a memory limit, over the sample that ships.
// Skipped where no memory cgroup can be made.
#include "eval/disk_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "eval/disk_results.h"
#include "eval/report/pages.h"
#include "eval/results.h"
#include "index/base/units.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class DiskSweep : public testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<MemoryGroup> group = MemoryGroup::Create("can", 64_MiB);
    if (!group.ok()) GTEST_SKIP() << group.status().message();
    groups_ = fs::path(group->procs()).parent_path().parent_path();
    folder_ = absl::StrCat(testing::TempDir(), "disk_sweep_test.", ::getpid());
    SweepOptions& sweep = options_.sweep;
    sweep.job.base = "datasets/sample/base.u8bin";
    sweep.job.queries = "datasets/sample/query.u8bin";
    sweep.groundtruth = "datasets/sample/query.gt100";
    sweep.job.query_rows = 50;
    sweep.job.folder = folder_;
    sweep.job.work = folder_ + "/work";
    sweep.job.threads = 2;
    sweep.rounds = 2;
    sweep.targets = {0.95};
    sweep.warm_up_queries = 20;
    options_.shapes = AllShapes({1, 2}, {1, 4});
    options_.disk.time = std::chrono::milliseconds(
        250);  // a busy machine may leave a thread without the CPU for a tenth of a second
    options_.disk.depths = {1, 8};
    absl::StatusOr<std::vector<ContestantSpec>> specs =
        DiskContestants(DType::kU8, Metric::kL2, {{"promote", 0.16}});
    ASSERT_TRUE(specs.ok()) << specs.status();
    sweep.contestants = *std::move(specs);
    ASSERT_EQ(sweep.contestants.size(), 3u);
    sweep.contestants.erase(
        sweep.contestants.begin());  // the quantised walk; one of hmann's will do here
    sweep.contestants[0].settings = {{{"walk", "best-first"}, {"ef_l1", 8}, {"ef_l0", 10}},
                                     {{"walk", "best-first"}, {"ef_l1", 64}, {"ef_l0", 60}}};
    sweep.contestants[1].settings = {{{"ef", 10}}, {{"ef", 160}}};
  }
  void TearDown() override {
    fs::remove_all(folder_);
    if (groups_.empty()) return;
    for (const auto& entry : fs::directory_iterator(groups_)) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(
          absl::StrCat("hmann-eval.", ::getpid(), ".")))
          << entry.path() << " is left over";
    }
  }

  absl::StatusOr<DiskSweepResult> Run() {
    Progress progress(Progress::Show::kNever);
    return RunDiskSweep(options_, progress,
                        [this](const std::string& line) { said_ += line + "\n"; });
  }

  std::map<std::string, int> KindsOfLines() const {
    std::map<std::string, int> kinds;
    std::ifstream lines(folder_ + "/results.jsonl");
    for (std::string line; std::getline(lines, line);)
      ++kinds[Json::parse(line, nullptr, false).value("kind", "")];
    return kinds;
  }

  DiskSweepOptions options_;
  std::string folder_, said_;
  fs::path groups_;
};

void CheckRows(const Json& rows) {
  ASSERT_EQ(rows.size(), 12u) << "six rows at recall@1 and six at recall@10";
  for (const Json& row : rows) {
    const bool own = row["contestant"].get<std::string>().starts_with("hmann");
    EXPECT_GT(row["qps"].get<double>(), 0) << row;
    EXPECT_GT(row["ratio"].get<double>(), 0) << row;
    if (!own) {
      EXPECT_NEAR(row["ratio"].get<double>(), 1, 1e-9) << row;
    }
    EXPECT_LE(row["mean_us"].get<double>(), row["p99_us"].get<double>() * 1.0001) << row;
    EXPECT_EQ(row["rounds"].is_null(), !own) << row;
    if (own) {
      EXPECT_GT(row["blocks"].get<double>(), 0) << row;
    }
  }
}

TEST_F(DiskSweep, BothContestantsOnTheSample) {
  const absl::StatusOr<DiskSweepResult> result = Run();
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<std::string> names;
  for (const ContestantRuns& row : result->sweep.runs) names.push_back(row.name);
  EXPECT_THAT(names,
              ElementsAre("hmann best-first, 1 thread", "hmann best-first, 1 thread, 4 in flight",
                          "hnswlib, 1 thread", "hmann best-first, 2 threads",
                          "hmann best-first, 2 threads, 4 in flight", "hnswlib, 2 threads"));
  for (const std::size_t row : {1u, 3u, 4u}) {
    for (std::size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(result->sweep.runs[row].settings[s].recall,
                result->sweep.runs[0].settings[s].recall)
          << names[row] << ": equal dials";
      EXPECT_EQ(result->sweep.runs[row].settings[s].counters["slow_reads"],
                result->sweep.runs[0].settings[s].counters["slow_reads"]);
    }
  }
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(result->sweep.runs[3].settings[s].counters,
              result->sweep.runs[0].settings[s].counters)
        << "counted once for all numbers of threads";
    EXPECT_EQ(result->sweep.runs[4].settings[s].counters,
              result->sweep.runs[1].settings[s].counters);
  }
  EXPECT_EQ(result->sweep.runs[2].settings[1].recall, result->sweep.runs[5].settings[1].recall)
      << "hnswlib, with as many threads as it likes";
  EXPECT_THAT(result->sweep.runs[2].ready.library, HasSubstr("u8, level 0 mapped"));
  ASSERT_EQ(result->memory.size(), 2u);
  EXPECT_EQ(result->memory_limit, fs::file_size(result->memory[0].index_file) / 4 + 64_MiB);
  for (const LimitedMemory& memory : result->memory) {
    EXPECT_GT(memory.loaded_bytes, 0u);
    EXPECT_GT(memory.peak_bytes, memory.loaded_bytes);
    EXPECT_LE(memory.peak_bytes, memory.limit_bytes);
  }

  const Json figures = ToJson(*result);
  const Json& disk = figures["disk"];
  ASSERT_EQ(disk["measured"].size(), 2u);
  EXPECT_GE(disk["most_iops"].get<double>(),
            disk["measured"][0]["depths"][0]["iops"].get<double>());
  CheckRows(disk["rows"]);
  // What the kernel counts for hmann is what it asked for itself: nothing comes out of a
  // page cache, nothing else is read.
  const SettingRuns& alone = result->sweep.runs[0].settings[1];
  EXPECT_NEAR(alone.observed.at("read_bytes")[0], alone.counters["io_bytes"].get<double>(),
              0.05 * alone.counters["io_bytes"].get<double>());

  const std::map<std::string, int> expected = {{"sweep", 1},      {"disk", 2},  {"memory", 1},
                                               {"contestant", 2}, {"count", 6}, {"run", 2 * 12}};
  EXPECT_EQ(KindsOfLines(), expected);
  std::ostringstream table;
  PrintDiskTables(figures, table);
  EXPECT_THAT(table.str(),
              AllOf(HasSubstr("reads per second, 2 threads"),
                    HasSubstr("a quarter of hmann's index file and 64 MiB"), HasSubstr("@10 0.95"),
                    HasSubstr("hmann best-first, 2 threads, 4 in flight")));
  EXPECT_TRUE(WriteReport(figures, SweepPage(), folder_ + "/report.html").ok());
}

TEST_F(DiskSweep, ALimitThatIsTooSmallIsNamedAndLeavesNothing) {
  options_.shapes = {{1, 1}};
  options_.memory_limit = 2_MiB;
  const absl::StatusOr<DiskSweepResult> result = Run();
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()),
              AllOf(HasSubstr("contestant hmann"), HasSubstr("2.0 MiB")));
  EXPECT_FALSE(fs::exists(folder_ + "/results.jsonl"));
}

TEST_F(DiskSweep, CancelledItLeavesNothing) {
  std::atomic<bool> cancelled{false};
  options_.sweep.job.cancelled = &cancelled;
  Progress progress(Progress::Show::kNever);
  const absl::StatusOr<DiskSweepResult> result =
      RunDiskSweep(options_, progress, [&](const std::string& line) {
        if (line.starts_with("memory:")) cancelled = true;  // the cgroups are there
      });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
}

TEST_F(DiskSweep, WhatMakesNoSenseIsRefused) {
  options_.shapes = {};
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("search threads"));
  options_.shapes = {{1, 0}};
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("in flight"));
  options_.shapes = {{1, 1}};
  options_.targets_at_1 = {2};
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("targets at 1"));
  options_.targets_at_1 = {0.9};
  options_.sweep.clock = RunClock::kCpu;
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("clock"));
}

}  // namespace
}  // namespace hmann
