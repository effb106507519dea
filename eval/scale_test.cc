// Growth over small sizes of the shipped sample, through the real programs.
#include "eval/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "eval/memory_group.h"
#include "eval/results.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Scale : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "scale_test.", ::getpid());
    fs::create_directories(folder_);
    Benchmark& each = options_.each;
    each.job.base = "datasets/sample/base.u8bin";
    each.job.queries = "datasets/sample/query.u8bin";
    each.job.query_rows = 60;
    each.job.folder = folder_ + "/out";
    each.job.threads = 2;
    each.job.run_timeout = std::chrono::minutes(2);
    each.targets = {0.9};
    each.warm_up_queries = 0;
    each.gathers = {{{"loads", 1}, {"ns_a_line", 90}}, {{"loads", 32}, {"ns_a_line", 10}}};
    options_.tiers = {"dram"};
    options_.sizes = {2000, 5000};
    options_.fast_bytes = {60};
  }
  void TearDown() override { fs::remove_all(folder_); }

  absl::StatusOr<Json> Run() {
    said_.clear();
    Progress progress(Progress::Show::kNever);
    const absl::StatusOr<std::vector<Json>> lines =
        RunScale(options_, progress, [this](const std::string& line) {
          said_ += line + "\n";
          if (!stop_at_.empty() && line.find(stop_at_) != std::string::npos) cancelled_ = true;
        });
    if (!lines.ok()) return lines.status();
    return FiguresOf(*lines);
  }
  std::string Fails() { return std::string(Run().status().message()); }

  ScaleOptions options_;
  std::string folder_, said_, stop_at_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(Scale, RealAndMadeUpSizesOnOnePage) {
  options_.sizes = {10000, 15000};
  options_.fast_bytes = {43, 86};
  const absl::StatusOr<Json> figures = Run();
  ASSERT_TRUE(figures.ok()) << figures.status();
  ASSERT_EQ((*figures)["sizes"].size(), 2u);
  ASSERT_EQ((*figures)["systems"].size(), 2u * 2 * 3 * 2) << "two indexes, modes, shapes";
  for (const Json& row : (*figures)["systems"]) {
    SCOPED_TRACE(absl::StrCat(row["name"].dump(), row["data"].dump()));
    const auto n = row["data"].get<double>(), bytes = row["fast_bytes_asked"].get<double>();
    EXPECT_EQ(row["synthetic"], n == 15000);
    EXPECT_EQ(row["aside"], false);
    EXPECT_LT(row["fast_bytes"].get<double>() / n, 1.15 * bytes);
    EXPECT_GT(row["fast_bytes"].get<double>() / n, 0.85 * bytes);
    EXPECT_THAT(row["structure"].get<std::string>(), HasSubstr(bytes == 43 ? "2 bits" : "4 bits"));
    EXPECT_GT(row["build_cpu_seconds"].get<double>(), 0);
    EXPECT_GT(row["peak_anonymous_bytes"].get<double>(), 0);
    const Json& at = row["targets"][0];
    ASSERT_FALSE(at["qps"].is_null()) << "all reach 0.9";
    EXPECT_GT(at["distances"].get<double>(), 10);
    EXPECT_GT(at["lines"].get<double>(), at["distances"].get<double>());
    EXPECT_GT(at["of_limit"].get<double>(), 0);
    for (const char* none : {"io_reads", "blocks"}) EXPECT_EQ(at[none], 0) << none;
    const bool codes = row["name"].get<std::string>().find("quantized") != std::string::npos;
    EXPECT_EQ(at["estimates"] != 0, codes) << at["estimates"];
    EXPECT_GE(at["p99_us"].get<double>(), at["mean_us"].get<double>() * 0.999);
  }
  for (const auto& entry : fs::recursive_directory_iterator(options_.each.job.folder)) {
    EXPECT_NE(entry.path().extension(), ".index") << entry.path();
    EXPECT_NE(entry.path().stem(), "base") << entry.path();
  }
  std::ostringstream table;
  PrintTables(*figures, table);
  EXPECT_THAT(table.str(),
              AllOf(HasSubstr("15000"), HasSubstr("43 B, dram quantized, 1 thread, synthetic")));
}

TEST_F(Scale, OnADeviceInsideAMemoryLimit) {
  if (const auto group = MemoryGroup::Create("can", 64_MiB); !group.ok())
    GTEST_SKIP() << group.status().message();
  options_.tiers = {"nvme"};
  options_.sizes = {5000};
  const absl::StatusOr<Json> figures = Run();
  ASSERT_TRUE(figures.ok()) << figures.status();
  const Json& memory = (*figures)["disk"]["memory"]["systems"][0];
  EXPECT_EQ(memory["limit_bytes"], ScaleMemoryLimit(5000, 60));
  EXPECT_LE(memory["peak_bytes"], memory["limit_bytes"]);
  EXPECT_EQ((*figures)["disk"]["measured"].size(), 1u);
  ASSERT_FALSE((*figures)["systems"].empty());
  for (const Json& row : (*figures)["systems"]) {
    const Json& at = row["targets"][0];
    EXPECT_GT(at["io_reads"].get<double>(), 0.1) << row["name"];
    EXPECT_GT(at["of_limit"].get<double>(), 0) << row["name"];
  }
}

TEST_F(Scale, TiersOfAnyNameAreBesideEachOther) {
  options_.tiers = {"emulated:lat=300ns", "emulated:lat=600ns"};
  options_.sizes = {2000};
  const absl::StatusOr<Json> figures = Run();
  ASSERT_TRUE(figures.ok()) << figures.status();
  std::map<std::string, int> rows;
  for (const Json& row : (*figures)["systems"]) ++rows[row["place"]["slow"]];
  EXPECT_EQ(rows, (std::map<std::string, int>{{options_.tiers[0], 6}, {options_.tiers[1], 6}}));
}

TEST_F(Scale, CancelledItGoesOnBehindWhatIsDoneOfTheSame) {
  options_.sizes = {2000, 15000};
  options_.each.job.cancelled = &cancelled_;
  stop_at_ = "15000 vectors, synthetic";
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  stop_at_.clear();
  cancelled_ = false;
  const absl::StatusOr<Json> figures = Run();
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_THAT(said_, AllOf(HasSubstr("2000 vectors, 60 bytes, dram: done before"),
                           Not(HasSubstr("synthetic, 60 bytes, dram: done"))));
  EXPECT_EQ((*figures)["sizes"].size(), 2u);
  EXPECT_EQ((*Run())["systems"].dump(), (*figures)["systems"].dump())
      << "all is done: nothing is measured again";
  options_.sizes = {2000};
  options_.each.job.m = 8;
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(said_, Not(HasSubstr("done before"))) << "another M";
}

TEST_F(Scale, WhatMakesNoSenseIsRefusedBeforeTheWork) {
  options_.sizes = {5000, 1000};
  EXPECT_THAT(Fails(), HasSubstr("sizes"));
  options_.sizes = {};
  EXPECT_THAT(Fails(), HasSubstr("sizes"));
  options_.sizes = {1000};
  options_.tiers = {"tape"};
  EXPECT_THAT(Fails(), HasSubstr("tape"));
  options_.tiers = {"dram"};
  options_.fast_bytes = {1e-8};
  EXPECT_THAT(Fails(), HasSubstr("1e-08 bytes of fast memory a vector"));
  options_.fast_bytes = {60};
  options_.each.job.queries = "datasets/sample/README.md";
  EXPECT_THAT(Fails(), HasSubstr("README.md"));
  options_.each.job.queries = "datasets/sample/query.u8bin";
  options_.sizes = {std::uint64_t{1} << 31};
  EXPECT_FALSE(Run().ok()) << "more than an index may have";
  EXPECT_FALSE(fs::exists(options_.each.job.folder));
}

}  // namespace
}  // namespace hmann::eval
