// Growth over small sizes of the sample that ships, through the real programs.
#include "eval/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "datasets/vector_writer.h"
#include "eval/memory_group.h"
#include "eval/results.h"
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
    Benchmark& each = options_.each;
    each.job.base = "datasets/sample/base.u8bin";
    each.job.queries = "datasets/sample/query.u8bin";
    each.job.query_rows = 60;
    each.job.folder = folder_ + "/out";
    each.job.threads = 2;
    each.job.run_timeout = std::chrono::minutes(2);
    each.targets = {0.9};
    each.warm_up_queries = 0;
    each.disk.time = std::chrono::milliseconds(100);
    each.disk.depths = {1, 8};
    each.gathers = {{{"loads", 1}, {"ns_a_line", 90}}, {{"loads", 32}, {"ns_a_line", 10}}};
    options_.tiers = {"dram"};
    options_.sizes = {1000, 5000};
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

  /// A file of the first rows of the sample, which a test may spoil.
  void OwnBase(std::uint64_t first) {
    const absl::StatusOr<VectorFile> sample = VectorFile::Open("datasets/sample/base.u8bin");
    ASSERT_TRUE(sample.ok());
    options_.each.job.base = folder_ + "/own.u8bin";
    absl::StatusOr<VectorWriter> writer =
        VectorWriter::Create(options_.each.job.base, sample->dim());
    ASSERT_TRUE(writer.ok());
    for (std::uint64_t i = first; i < first + 2000; ++i)
      ASSERT_TRUE(writer->Append(sample->Row(i), 1).ok());
    ASSERT_TRUE(writer->Commit().ok());
  }
  std::string Lines() const {
    return *ReadTextFile(options_.each.job.folder + "/results.jsonl", 16_MiB);
  }

  ScaleOptions options_;
  std::string folder_, said_, stop_at_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(Scale, RealAndMadeUpSizesOnOnePage) {
  options_.sizes = {1000, 10000, 15000};
  options_.fast_bytes = {43, 86};
  const absl::StatusOr<Json> figures = Run();
  ASSERT_TRUE(figures.ok()) << figures.status();
  ASSERT_EQ((*figures)["sizes"].size(), 3u);
  ASSERT_EQ((*figures)["contestants"].size(), 3u * 2 * 2 * 2) << "two indexes, walks, shapes";
  for (const Json& row : (*figures)["contestants"]) {
    SCOPED_TRACE(absl::StrCat(row["name"].dump(), row["data"].dump()));
    const auto n = row["data"].get<double>(), bytes = row["fast_bytes_asked"].get<double>();
    EXPECT_EQ(row["made_up"], n == 15000);
    EXPECT_LT(row["fast_bytes"].get<double>() / n, 1.15 * bytes);
    EXPECT_GT(row["fast_bytes"].get<double>() / n, 0.85 * bytes);
    EXPECT_EQ(row["from"], bytes == 43 ? "vectors" : "promotion");
    EXPECT_GT(row["build_cpu_seconds"].get<double>(), 0);
    EXPECT_GT(row["peak_anonymous_bytes"].get<double>(), 0);
    const Json& at = row["targets"][0];
    ASSERT_FALSE(at["qps"].is_null()) << "all reach 0.9";
    EXPECT_GT(at["distances"].get<double>(), 10);
    EXPECT_GT(at["lines"].get<double>(), at["distances"].get<double>());
    EXPECT_GT(at["of_limit"].get<double>(), 0);
    EXPECT_GE(at["p99_us"].get<double>(), at["mean_us"].get<double>() * 0.999);
  }
  for (const auto& entry : fs::recursive_directory_iterator(options_.each.job.folder)) {
    EXPECT_NE(entry.path().extension(), ".hmann") << entry.path();
    EXPECT_NE(entry.path().stem(), "base") << entry.path();
  }
  std::ostringstream table;
  PrintTables(*figures, table);
  EXPECT_THAT(table.str(), AllOf(HasSubstr("15k"), HasSubstr("promotion"),
                                 HasSubstr("43 B, dram, quantised, 1 thread, made up")));
}

TEST_F(Scale, OnADeviceInsideAMemoryLimit) {
  if (const auto group = MemoryGroup::Create("can", 64_MiB); !group.ok())
    GTEST_SKIP() << group.status().message();
  options_.tiers = {"nvme"};
  options_.sizes = {5000};
  const absl::StatusOr<Json> figures = Run();
  ASSERT_TRUE(figures.ok()) << figures.status();
  const Json& memory = (*figures)["disk"]["memory"]["contestants"][0];
  EXPECT_EQ(memory["limit_bytes"], ScaleMemoryLimit(5000, 60));
  EXPECT_LE(memory["peak_bytes"], memory["limit_bytes"]);
  EXPECT_EQ((*figures)["disk"]["measured"].size(), 2u) << "1 and 2 threads";
  ASSERT_FALSE((*figures)["contestants"].empty());
  for (const Json& row : (*figures)["contestants"]) {
    const Json& at = row["targets"][0];
    EXPECT_GT(at["io_reads"].get<double>(), 0.1) << row["name"];
    EXPECT_GT(at["of_limit"].get<double>(), 0) << row["name"];
  }
}

TEST_F(Scale, TiersOfAnyNameAreBesideEachOther) {
  options_.tiers = {"emulated:lat=300ns", "emulated:lat=600ns"};
  options_.sizes = {1000};
  const absl::StatusOr<Json> figures = Run();
  ASSERT_TRUE(figures.ok()) << figures.status();
  std::map<std::string, int> rows;
  for (const Json& row : (*figures)["contestants"]) ++rows[row["place"]["slow"]];
  EXPECT_EQ(rows, (std::map<std::string, int>{{options_.tiers[0], 4}, {options_.tiers[1], 4}}));
}

TEST_F(Scale, CancelledAtAnySizeItGoesOnBehindWhatIsDone) {
  options_.each.job.cancelled = &cancelled_;
  stop_at_ = "size 2 of 2";
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  const std::string before = Lines();
  EXPECT_THAT(before,
              AllOf(HasSubstr("\"data\":1000,"), testing::Not(HasSubstr("\"data\":5000,"))));
  stop_at_ = "searched on dram";  // an index is there by then
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
  EXPECT_EQ((*Run())["contestants"].dump(), (*figures)["contestants"].dump())
      << "all is done: nothing is measured again";
}

TEST_F(Scale, ABaseThatIsGoneOrHasChangedAndAnotherMAreNamed) {
  OwnBase(0);
  options_.sizes = {1000};
  ASSERT_TRUE(Run().ok());
  options_.each.job.m = 8;
  EXPECT_THAT(Fails(), AllOf(HasSubstr("results.jsonl"), HasSubstr("expected m 8, found 16")));
  options_.each.job.m = 16;
  OwnBase(2000);
  EXPECT_THAT(Fails(), AllOf(HasSubstr("expected base"), HasSubstr("checksum")));
  fs::remove(options_.each.job.base);
  EXPECT_THAT(Fails(), HasSubstr("own.u8bin"));
}

TEST_F(Scale, AFolderOfSomethingElseIsLeftAlone) {
  fs::create_directories(options_.each.job.folder);
  ASSERT_TRUE(WriteTextFile(options_.each.job.folder + "/letter.txt", "dear").ok());
  EXPECT_THAT(Fails(), HasSubstr("expected an empty folder"));
  for (const char* content : {"", "no json\n", "{\"kind\":\"sweep\"}\n", "[1]\n"}) {
    ASSERT_TRUE(WriteTextFile(options_.each.job.folder + "/results.jsonl", content).ok());
    EXPECT_THAT(Fails(), HasSubstr("results.jsonl: line 1: expected an object of kind benchmark"));
  }
  EXPECT_EQ(*ReadTextFile(options_.each.job.folder + "/letter.txt", 100), "dear");
}

TEST_F(Scale, WhatMakesNoSenseIsRefusedBeforeTheWork) {
  options_.each.job.folder = folder_ + "/refused";
  options_.sizes = {5000, 1000};
  EXPECT_THAT(Fails(), HasSubstr("sizes"));
  options_.sizes = {};
  EXPECT_THAT(Fails(), HasSubstr("sizes"));
  options_.sizes = {1000};
  options_.tiers = {"tape"};
  EXPECT_THAT(Fails(), HasSubstr("tape"));
  options_.tiers = {"dram"};
  EXPECT_FALSE(fs::exists(options_.each.job.folder));
  options_.fast_bytes = {1e-8};
  EXPECT_THAT(Fails(), HasSubstr("1e-08 bytes of fast memory a vector"));
  EXPECT_FALSE(fs::exists(options_.each.job.folder + "/size-1000"));
  options_.fast_bytes = {60};
  options_.each.job.folder = folder_ + "/large";
  options_.each.job.queries = "datasets/sample/README.md";
  EXPECT_THAT(Fails(), HasSubstr("README.md"));
  options_.each.job.queries = "datasets/sample/query.u8bin";
  options_.sizes = {std::uint64_t{1} << 31};
  EXPECT_FALSE(Run().ok()) << "more than an index may have";
  options_.sizes = {2'000'000'000};
  EXPECT_THAT(Fails(), HasSubstr("vectors and indexes of the largest size"));
}

}  // namespace
}  // namespace hmann
