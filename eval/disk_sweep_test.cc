// Runs a whole small sweep on the disk under a memory limit, over the shipped sample.
// Skipped if no memory cgroup can be created.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "eval/benchmark.h"
#include "eval/builtin_systems.h"
#include "eval/memory_group.h"
#include "eval/report/pages.h"
#include "eval/results.h"
#include "index/base/units.h"

namespace hmann::eval {
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
    options_.job.base = "datasets/sample/base.u8bin";
    options_.job.queries = "datasets/sample/query.u8bin";
    options_.groundtruth = "datasets/sample/query.gt100";
    options_.job.query_rows = 50;
    options_.job.folder = folder_;
    options_.job.work = folder_ + "/work";
    options_.job.threads = 2;
    options_.rounds = 2;
    options_.targets = {0.95};
    options_.warm_up_queries = 20;
    options_.memory_limit = 0;
    options_.shapes = AllShapes({1, 2}, {1, 4});
    const absl::StatusOr<SystemSpec> hmann = BuiltinSystem("hmann", {{"promote", 0.16}}),
                                     baseline = MappedHnswlib(DType::kU8, Metric::kL2);
    ASSERT_TRUE(hmann.ok() && baseline.ok()) << hmann.status() << baseline.status();
    const std::vector<SystemSpec> own = OnDrive(*hmann);
    ASSERT_EQ(own.size(), 2u);
    EXPECT_EQ(own[1].again_of, own[0].name);
    options_.systems = {own[0], *baseline};  // one of hmann's is enough here
    options_.systems[0].settings = {{{"mode", "graph"}, {"ef_l1", 8}, {"ef_l0", 10}},
                                    {{"mode", "graph"}, {"ef_l1", 64}, {"ef_l0", 60}}};
    options_.systems[1].settings = {{{"ef", 10}}, {{"ef", 160}}};
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

  absl::StatusOr<std::vector<Json>> Run() {
    Progress progress(Progress::Show::kNever);
    return RunBenchmark(options_, progress,
                        [this](const std::string& line) { said_ += line + "\n"; });
  }

  Benchmark options_;
  std::string folder_, said_;
  fs::path groups_;
};

void CheckRows(const Json& figures) {
  ASSERT_EQ(figures["systems"].size(), 6u);
  for (const Json& row : figures["systems"]) {
    SCOPED_TRACE(row["name"].dump());
    const bool own = row["name"].get<std::string>().starts_with("hmann");
    const Json& at = row["targets"][0];
    EXPECT_GT(at["qps"].get<double>(), 0);
    EXPECT_GT(at["ratio"].get<double>(), 0);
    if (!own) {
      EXPECT_NEAR(at["ratio"].get<double>(), 1, 1e-9);
    }
    EXPECT_LE(at["mean_us"].get<double>(), at["p99_us"].get<double>() * 1.0001);
    EXPECT_EQ(at["hops"].is_null(), !own);
    if (own) {
      EXPECT_GT(at["blocks"].get<double>(), 0);
      EXPECT_GT(at["disk_share"].get<double>(), 0);
      EXPECT_GT(at["of_limit"].get<double>(), 0);
    }
  }
}

void CheckMemory(const Json& figures) {
  const Json& used = figures["disk"]["memory"]["systems"];
  ASSERT_EQ(used.size(), 2u);
  for (const Json& memory : used) {
    EXPECT_GT(memory["loaded_bytes"], 0u);
    EXPECT_GT(memory["peak_bytes"], memory["loaded_bytes"]);
    EXPECT_LE(memory["peak_bytes"], memory["limit_bytes"]);
  }
  const std::uint64_t limit = fs::file_size(used[0]["index_file"].get<std::string>()) / 4 + 64_MiB;
  EXPECT_EQ(figures["systems"][0]["place"]["memory_limit"], limit);
}

TEST_F(DiskSweep, BothContestantsOnTheSample) {
  const absl::StatusOr<std::vector<Json>> lines = Run();
  ASSERT_TRUE(lines.ok()) << lines.status();
  const std::vector<Curve> curves = CurvesOf(*lines);
  std::vector<std::string> names;
  for (const Curve& row : curves) names.push_back(row.label);
  ASSERT_THAT(names, ElementsAre("hmann graph, 1 thread", "hmann graph, 1 thread, 4 in flight",
                                 "hnswlib, 1 thread", "hmann graph, 2 threads",
                                 "hmann graph, 2 threads, 4 in flight", "hnswlib, 2 threads"));
  for (const std::size_t row : {1u, 3u, 4u}) {
    for (std::size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(curves[row].settings[s].recall, curves[0].settings[s].recall)
          << names[row] << ": equal params";
      EXPECT_EQ(curves[row].settings[s].counters["node_reads"],
                curves[0].settings[s].counters["node_reads"]);
    }
  }
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(curves[3].settings[s].counters, curves[0].settings[s].counters)
        << "counted once for all numbers of threads";
    EXPECT_EQ(curves[4].settings[s].counters, curves[1].settings[s].counters);
  }
  EXPECT_EQ(curves[2].settings[1].recall, curves[5].settings[1].recall)
      << "hnswlib, with as many threads as it likes";
  EXPECT_THAT(curves[2].system["library"].get<std::string>(), HasSubstr("u8, level 0 mapped"));

  const Json figures = FiguresOf(*lines);
  const Json& disk = figures["disk"];
  ASSERT_EQ(disk["measured"].size(), 1u);
  EXPECT_GE(disk["most_iops"].get<double>(),
            disk["measured"][0]["depths"][0]["iops"].get<double>());
  CheckRows(figures);
  CheckMemory(figures);
  // The kernel counts for hmann exactly what it requested: nothing comes from a page
  // cache, and nothing else is read.
  const SettingRuns& alone = curves[0].settings[1];
  EXPECT_NEAR(alone.observed.at("read_bytes")[0], alone.counters["io_bytes"].get<double>(),
              0.05 * alone.counters["io_bytes"].get<double>());

  std::map<std::string, int> kinds;
  for (const Json& line : *lines) ++kinds[line.value("kind", "")];
  const std::map<std::string, int> expected = {{"benchmark", 1}, {"device", 1},  {"dram", 1},
                                               {"memory", 2},    {"system", 2},  {"count", 6},
                                               {"round", 2},     {"run", 2 * 12}};
  EXPECT_EQ(kinds, expected);
  std::ostringstream table;
  PrintTables(figures, table);
  EXPECT_THAT(table.str(),
              AllOf(HasSubstr("iops"), HasSubstr("at recall 0.95"), HasSubstr("loaded bytes"),
                    HasSubstr("hmann graph, 2 threads, 4 in flight")));
  EXPECT_TRUE(WriteReport(figures, BenchmarkPage(), folder_ + "/report.html").ok());
}

TEST_F(DiskSweep, ALimitThatIsTooSmallIsNamedAndLeavesNothing) {
  options_.shapes = {{1, 1}};
  options_.memory_limit = 2_MiB;
  const absl::StatusOr<std::vector<Json>> result = Run();
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()),
              AllOf(HasSubstr("system hmann"), HasSubstr("2.0 MiB")));
  EXPECT_FALSE(fs::exists(folder_ + "/results.jsonl"));
}

TEST_F(DiskSweep, CancelledItLeavesNothing) {
  std::atomic<bool> cancelled{false};
  options_.job.cancelled = &cancelled;
  Progress progress(Progress::Show::kNever);
  const absl::StatusOr<std::vector<Json>> result =
      RunBenchmark(options_, progress, [&](const std::string& line) {
        if (line.starts_with("memory:")) cancelled = true;  // the cgroups exist now
      });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
}

TEST_F(DiskSweep, WhatMakesNoSenseIsRefused) {
  options_.shapes = {};
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("search threads"));
  options_.shapes = {{1, 0}};
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("in flight"));
  options_.shapes = {{1, 1}};
  options_.clock = RunClock::kCpu;
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("clock"));
}

}  // namespace
}  // namespace hmann::eval
