// Growth over small sizes of the sample that ships, through the real programs.
#include "eval/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "datasets/vector_writer.h"
#include "eval/memory_group.h"
#include "eval/scale_results.h"
#include "eval/scale_structure.h"
#include "index/base/file.h"
#include "index/base/units.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Scale : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "scale_test.", ::getpid());
    fs::create_directories(folder_);
    options_.job.base = "datasets/sample/base.u8bin";
    options_.job.queries = "datasets/sample/query.u8bin";
    options_.job.query_rows = 120;
    options_.job.folder = folder_ + "/out";
    options_.job.threads = 2;
    options_.job.run_timeout = std::chrono::minutes(2);
    options_.learn = 60;
    options_.tiers = {"dram"};
    options_.sizes = {1000, 5000};
    options_.fast_bytes = {60};
    options_.targets = {0.9};
    options_.disk.time = std::chrono::milliseconds(100);
    options_.disk.depths = {1, 8};
    options_.machine.budget = std::chrono::milliseconds(50);
    options_.machine.memory_bytes = 16_MiB;
  }
  void TearDown() override { fs::remove_all(folder_); }

  absl::StatusOr<Json> Run() {
    said_.clear();
    Progress progress(Progress::Show::kNever);
    return RunScale(options_, progress, [this](const std::string& line) {
      said_ += line + "\n";
      if (!stop_at_.empty() && line.find(stop_at_) != std::string::npos) cancelled_ = true;
    });
  }
  std::string Fails() { return std::string(Run().status().message()); }

  /// A file of the first rows of the sample, which a test may spoil.
  void OwnBase(std::uint64_t first) {
    const absl::StatusOr<VectorFile> sample = VectorFile::Open("datasets/sample/base.u8bin");
    ASSERT_TRUE(sample.ok());
    options_.job.base = folder_ + "/own.u8bin";
    absl::StatusOr<VectorWriter> writer = VectorWriter::Create(options_.job.base, sample->dim());
    ASSERT_TRUE(writer.ok());
    for (std::uint64_t i = first; i < first + 2000; ++i)
      ASSERT_TRUE(writer->Append(sample->Row(i), 1).ok());
    ASSERT_TRUE(writer->Commit().ok());
  }
  std::string Lines() const { return *ReadTextFile(options_.job.folder + "/scale.jsonl", 16_MiB); }

  ScaleOptions options_;
  std::string folder_, said_, stop_at_;
  std::atomic<bool> cancelled_{false};
};

/// Rows of one size that reach the target.
std::vector<Json> Reached(const Json& size) {
  std::vector<Json> rows;
  for (const Json& index : size["indexes"]) {
    for (const Json& row : index["rows"]) {
      if (!row["qps"].is_null()) rows.push_back(row);
    }
  }
  return rows;
}

TEST_F(Scale, RealAndMadeUpSizesOnOnePage) {
  options_.sizes = {1000, 10000, 15000};
  options_.fast_bytes = {43, 86};
  const absl::StatusOr<Json> figures = Run();
  ASSERT_TRUE(figures.ok()) << figures.status();
  ASSERT_EQ((*figures)["sizes"].size(), 3u);
  for (const Json& size : (*figures)["sizes"]) {
    SCOPED_TRACE(size["n"].dump());
    EXPECT_EQ(size["made_up"], size["n"] == 15000);
    EXPECT_EQ(size["queries"], 60);
    ASSERT_EQ(size["indexes"].size(), 2u);
    for (const Json& index : size["indexes"]) {
      const double bytes = index["fast_bytes"].get<double>();
      EXPECT_LE(index["planned_a_vector"].get<double>(), bytes);
      EXPECT_GT(index["planned_a_vector"].get<double>(), 0.9 * bytes);
      EXPECT_LT(index["placed_bytes"].get<double>() / size["n"].get<double>(), 1.15 * bytes);
      EXPECT_EQ(index["build"]["from"], bytes == 43 ? "vectors" : "promotion");
      EXPECT_EQ(index["rows"].size(), 2u * 2) << "two walks, two shapes";
    }
    const std::vector<Json> rows = Reached(size);
    ASSERT_EQ(rows.size(), 8u) << "all reach 0.9";
    for (const Json& row : rows) {
      EXPECT_GT(row["distances"].get<double>(), 10) << row;
      EXPECT_GT(row["lines"].get<double>(), row["distances"].get<double>()) << row;
      EXPECT_GT(row["of_limit"].get<double>(), 0) << row;
      EXPECT_GE(row["p99_us"].get<double>(), row["mean_us"].get<double>() * 0.999) << row;
    }
  }
  bool grown = false;
  for (const Json& growth : (*figures)["growth"]) {
    if (growth["figure"] != "cpu_seconds" || growth["fast_bytes"] != 43) continue;
    grown = true;
    EXPECT_EQ(growth["points"].size(), 3u);
    EXPECT_EQ(growth["made_up"], 1);
    EXPECT_FALSE(growth["extrapolated"]["power"]["error"].is_null());
  }
  EXPECT_TRUE(grown);
  EXPECT_THAT((*figures)["goal"]["structure"].get<std::string>(), HasSubstr("promoted"));
  for (const auto& entry : fs::recursive_directory_iterator(options_.job.folder)) {
    EXPECT_NE(entry.path().extension(), ".hmann") << entry.path();
    EXPECT_NE(entry.path().stem(), "base") << entry.path();
  }
  std::ostringstream table;
  PrintScaleTables(*figures, table);
  EXPECT_THAT(table.str(), AllOf(HasSubstr("15k, made up"), HasSubstr("extrapolated to 1e+09"),
                                 HasSubstr("43 B, dram, quantised")));
}

TEST_F(Scale, OnADeviceInsideAMemoryLimit) {
  if (const auto group = MemoryGroup::Create("can", 64_MiB); !group.ok())
    GTEST_SKIP() << group.status().message();
  options_.tiers = {"nvme"};
  options_.sizes = {5000};
  const absl::StatusOr<Json> figures = Run();
  ASSERT_TRUE(figures.ok()) << figures.status();
  const Json& index = (*figures)["sizes"][0]["indexes"][0];
  EXPECT_EQ(index["memory"][0]["limit_bytes"], ScaleMemoryLimit(5000, 60));
  EXPECT_LE(index["memory"][0]["peak_bytes"], index["memory"][0]["limit_bytes"]);
  EXPECT_EQ(index["drives"][0]["measured"].size(), 2u) << "1 and 2 threads";
  const std::vector<Json> rows = Reached((*figures)["sizes"][0]);
  ASSERT_FALSE(rows.empty());
  for (const Json& row : rows) {
    EXPECT_GT(row["io_reads"].get<double>(), 0.1) << row;
    EXPECT_GT(row["of_limit"].get<double>(), 0) << row;
  }
  EXPECT_TRUE((*figures)["growth"].empty()) << "one size has no growth";
}

TEST_F(Scale, CancelledAtAnySizeItGoesOnBehindWhatIsDone) {
  options_.job.cancelled = &cancelled_;
  stop_at_ = "size 2 of 2";
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  const std::string before = Lines();
  EXPECT_THAT(before, AllOf(HasSubstr("\"n\":1000,"), testing::Not(HasSubstr("\"n\":5000,"))));
  stop_at_ = "settings on dram";  // an index is there by then
  cancelled_ = false;
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(said_, AllOf(HasSubstr("1000 vectors, done before"), HasSubstr("building")));
  stop_at_.clear();
  cancelled_ = false;
  const absl::StatusOr<Json> figures = Run();
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_THAT(said_, testing::Not(HasSubstr("building"))) << "the index is there";
  EXPECT_TRUE(Lines().starts_with(before));
  EXPECT_EQ((*figures)["sizes"].size(), 2u);
  EXPECT_EQ(Run()->dump(), figures->dump()) << "all is done: nothing is measured again";
}

TEST_F(Scale, ABaseThatIsGoneOrHasChangedAndAnotherMAreNamed) {
  OwnBase(0);
  options_.sizes = {1000};
  ASSERT_TRUE(Run().ok());
  options_.job.m = 8;
  EXPECT_THAT(Fails(), AllOf(HasSubstr("scale.jsonl"), HasSubstr("expected m 8, found 16")));
  options_.job.m = 16;
  OwnBase(2000);
  EXPECT_THAT(Fails(), AllOf(HasSubstr("expected base"), HasSubstr("checksum")));
  fs::remove(options_.job.base);
  EXPECT_THAT(Fails(), HasSubstr("own.u8bin"));
}

TEST_F(Scale, AFolderOfSomethingElseIsLeftAlone) {
  fs::create_directories(options_.job.folder);
  ASSERT_TRUE(WriteTextFile(options_.job.folder + "/letter.txt", "dear").ok());
  EXPECT_THAT(Fails(), HasSubstr("expected an empty folder"));
  for (const char* content : {"", "no json\n", "{\"kind\":\"sweep\"}\n", "[1]\n"}) {
    ASSERT_TRUE(WriteTextFile(options_.job.folder + "/scale.jsonl", content).ok());
    EXPECT_THAT(Fails(), HasSubstr("scale.jsonl: line 1: expected an object of kind scale"));
  }
  EXPECT_EQ(*ReadTextFile(options_.job.folder + "/letter.txt", 100), "dear");
}

TEST_F(Scale, WhatMakesNoSenseIsRefusedBeforeTheWork) {
  options_.job.folder = folder_ + "/refused";
  options_.sizes = {5000, 1000};
  EXPECT_THAT(Fails(), HasSubstr("sizes"));
  options_.sizes = {};
  EXPECT_THAT(Fails(), HasSubstr("sizes"));
  options_.sizes = {1000};
  options_.walks = {"upper"};
  EXPECT_THAT(Fails(), HasSubstr("found 'upper'"));
  options_.walks = {"best-first"};
  options_.tiers = {"tape"};
  EXPECT_THAT(Fails(), HasSubstr("tape"));
  options_.tiers = {"dram"};
  EXPECT_FALSE(fs::exists(options_.job.folder));
  options_.fast_bytes = {1e-8};
  EXPECT_THAT(Fails(), HasSubstr("1e-08 bytes of fast memory a vector"));
  EXPECT_FALSE(fs::exists(options_.job.folder + "/size-1000"));
  options_.fast_bytes = {60};
  options_.job.folder = folder_ + "/large";
  options_.job.queries = "datasets/sample/README.md";
  EXPECT_THAT(Fails(), HasSubstr("README.md"));
  options_.job.queries = "datasets/sample/query.u8bin";
  options_.sizes = {std::uint64_t{1} << 31};
  EXPECT_FALSE(Run().ok()) << "more than an index may have";
  options_.sizes = {2'000'000'000};
  EXPECT_THAT(Fails(), HasSubstr("expected room for"));
}

TEST(PlanForBytes, TheStructureIsThatOfTheBytesWhateverTheSize) {
  for (const double bytes : {43.0, 86.0}) {
    for (const std::uint64_t n : {10'000ull, 1'000'000ull, 1'000'000'000ull}) {
      PlanShape shape;
      shape.n = n;
      shape.dim = 128;
      const absl::StatusOr<PlacementPlan> plan = PlanForBytes(shape, "nvme", bytes);
      ASSERT_TRUE(plan.ok()) << plan.status();
      const double taken = static_cast<double>(StructureBytesOf(*plan)) / static_cast<double>(n);
      EXPECT_LE(taken, bytes);
      EXPECT_GT(taken, 0.95 * bytes) << n;
      RecordProperty(absl::StrCat("plan_", bytes, "_", n),
                     DescribeStructure(shape, plan->structure));
    }
  }
}

}  // namespace
}  // namespace hmann
