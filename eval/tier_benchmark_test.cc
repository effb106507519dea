// Two memories on the shipped sample, through the real programs: the participants, what
// is compared with what, and the figures.
#include "eval/tier_benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "eval/report/pages.h"
#include "eval/results.h"
#include "eval/structure.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

PlanShape Sample() {
  PlanShape shape;
  shape.n = 10000;
  shape.dim = 128;
  return shape;
}

/// Every participating curve, by name.
std::map<std::string, CurveSpec> CurvesByName(const Benchmark& benchmark) {
  std::map<std::string, CurveSpec> curves;
  for (const SystemSpec& spec : benchmark.systems) {
    for (const CurveSpec& curve : spec.curves)
      EXPECT_TRUE(curves.emplace(curve.name, curve).second) << curve.name;
  }
  return curves;
}

TEST(TierBenchmark, EveryCurveSaysWhatItIsAndIsHeldAgainstCurvesThatAreThere) {
  TierBenchmark comparison;
  comparison.baseline_graph = "hnsw.index";
  Benchmark benchmark;
  ASSERT_TRUE(AddTiers(comparison, Sample(), &benchmark).ok());
  const std::map<std::string, CurveSpec> curves = CurvesByName(benchmark);
  EXPECT_THAT(benchmark.title, HasSubstr("lat=300ns"));
  EXPECT_TRUE(curves.contains(benchmark.reference)) << benchmark.reference;
  int again = 0;
  for (const auto& [name, curve] : curves) {
    SCOPED_TRACE(name);
    for (const auto& [as, other] : curve.beside) EXPECT_TRUE(curves.contains(other)) << other;
    again += curve.beside.contains("again") ? 1 : 0;
    if (curve.kind == "measured") {
      EXPECT_THAT(name, HasSubstr("all DRAM"));
      continue;
    }
    EXPECT_THAT(name, HasSubstr("emulated +"));
    EXPECT_EQ(curve.kind == "model", absl::StrContains(name, "model"));
    if (curve.aside) continue;
    EXPECT_EQ(curve.beside.at("reference"), benchmark.reference);
    if (absl::StrContains(name, "hnswlib's graph")) continue;
    EXPECT_EQ(curves.at(curve.beside.at("dram")).kind, "measured");
    EXPECT_TRUE(curves.at(curve.beside.at("zero")).aside);
    EXPECT_THAT(curve.beside.at("zero"), HasSubstr("emulated +0 ns"));
  }
  EXPECT_EQ(again, 1);
}

TEST(TierBenchmark, EveryCurveHasARunAtEachWidthAndEveryRunBelongsToACurve) {
  TierBenchmark comparison;
  comparison.widths = {10, 50};
  comparison.baseline_graph = "hnsw.index";
  Benchmark benchmark;
  ASSERT_TRUE(AddTiers(comparison, Sample(), &benchmark).ok());
  std::size_t settings = 0, in_curves = 0;
  for (const SystemSpec& spec : benchmark.systems) {
    settings += spec.settings.size();
    for (const CurveSpec& curve : spec.curves) {
      const auto matching =
          std::count_if(spec.settings.begin(), spec.settings.end(),
                        [&](const Json& setting) { return Matches(setting, curve.match); });
      EXPECT_EQ(matching, 2) << curve.name;
      in_curves += static_cast<std::size_t>(matching);
    }
  }
  EXPECT_EQ(in_curves, settings);
}

TEST(StructureForBytes, AsManyPromotedNodesAsTheBytesHoldWhateverTheSize) {
  for (const auto& [bytes, bits] : {std::pair(27.0, 1u), {43.0, 2u}, {75.0, 2u}, {86.0, 4u}}) {
    EXPECT_EQ(BitsForBytes(Sample(), bytes), bits) << bytes;
    for (const std::uint64_t n : {10'000ull, 1'000'000ull, 1'000'000'000ull}) {
      PlanShape shape = Sample();
      shape.n = n;
      for (const std::uint32_t with : {0u, bits}) {
        const absl::StatusOr<PlanStructure> structure = StructureForBytes(shape, bytes, with);
        ASSERT_TRUE(structure.ok()) << structure.status();
        const FastShape fast = FastShapeOf(*HeaderOf(shape, *structure));
        const auto budget = static_cast<std::uint64_t>(bytes * static_cast<double>(n));
        EXPECT_LE(FastBytes(fast, structure->n1), budget);
        EXPECT_GT(FastBytes(fast, structure->n1 + 1), budget);
      }
    }
  }
  EXPECT_EQ(BitsForBytes(Sample(), 10), 0u);
}

TEST(TierBenchmark, WhatMakesNoSenseIsRefused) {
  const auto error = [](auto change) {
    TierBenchmark comparison;
    change(comparison);
    Benchmark benchmark;
    return std::string(AddTiers(comparison, Sample(), &benchmark).message());
  };
  EXPECT_THAT(error([](TierBenchmark& c) { c.emulated = "lat=0ns"; }),
              HasSubstr("latency above 0"));
  EXPECT_NE(error([](TierBenchmark& c) { c.emulated = "slowly"; }), "");
  EXPECT_THAT(error([](TierBenchmark& c) { c.fast_bytes = {0.01}; }), HasSubstr("0.01 bytes"));
}

class TierSweep : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "tier_benchmark_test.", ::getpid());
    options_.job.base = "datasets/sample/base.u8bin";
    options_.job.queries = "datasets/sample/query.u8bin";
    options_.job.query_rows = 100;
    options_.groundtruth = "datasets/sample/query.gt100";
    options_.job.folder = folder_;
    options_.job.work = folder_ + "/work";
    options_.job.threads = 2;
    options_.rounds = 1;
    options_.targets = {0.9};
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string folder_;
  Benchmark options_;
};

/// The first row whose name starts with `start`, with this number of queries in flight.
const Json& RowOf(const Json& figures, const std::string& start, int in_flight = 1) {
  for (const Json& row : figures["systems"]) {
    if (absl::StartsWith(row["name"].get<std::string>(), start) && row["in_flight"] == in_flight)
      return row;
  }
  static const Json none;
  ADD_FAILURE() << "no row " << start;
  return none;
}

/// A search gives the same answers wherever its bytes lie.
void CheckAnswers(const std::vector<Curve>& curves) {
  std::map<std::string, double> recall_of_mode;
  for (const Curve& row : curves) {
    ASSERT_EQ(row.settings.size(), 2u) << row.label;
    const Json& setting = row.settings[1].setting;
    const std::string same =
        setting.contains("mode")
            ? absl::StrCat(setting["mode"].get<std::string>(),
                           absl::StrContains(row.name, "hnswlib's graph") ? ", theirs" : "")
            : "HNSW";
    const auto [found, is_new] = recall_of_mode.emplace(same, row.settings[1].recall[0]);
    EXPECT_EQ(found->second, row.settings[1].recall[0]) << row.label;
    EXPECT_GT(row.settings[1].recall[0], 0.9) << row.label;
  }
}

void CheckFastBytes(const Json& figures) {
  for (const char* row : {"hmann graph, 75 B, emulated", "hmann quantized, 75 B, 2 bits",
                          "Memory Mode, 75 B, model", "first-touch in query order, 75 B, model"}) {
    EXPECT_NEAR(RowOf(figures, row)["fast_bytes"].get<double>(), 75 * 10000, 0.1 * 75 * 10000)
        << row;
  }
  EXPECT_EQ(RowOf(figures, "HNSW all slow, emulated")["fast_bytes"], 0);
}

void CheckReads(const Json& figures) {
  const auto reads = [&](const std::string& start, int in_flight = 1) {
    return RowOf(figures, start, in_flight)["targets"][0]["node_reads"].get<double>();
  };
  const double all_slow = reads("HNSW all slow, emulated");
  EXPECT_GT(all_slow, reads("HNSW fast upper layers, emulated"));
  EXPECT_GT(all_slow, reads("first-touch in load order, 75 B, model"));
  EXPECT_GT(all_slow, reads("Memory Mode, 75 B, model"));
  EXPECT_EQ(all_slow, reads("HNSW all slow, emulated", 4)) << "queries in flight change no answer";
  EXPECT_LT(reads("HNSW, all DRAM"), 1e-6);
  EXPECT_LT(reads("hmann graph, 75 B, emulated"), all_slow);
  EXPECT_LT(reads("hmann quantized, 75 B, 2 bits, hnswlib's graph"), all_slow);
  EXPECT_EQ(reads("hmann graph, 75 B, emulated"), reads("hmann graph, no prefetch, 75 B, emulated"))
      << "fetching ahead changes no answer";
}

TEST_F(TierSweep, FiguresOfTheSample) {
  TierBenchmark comparison;
  comparison.emulated = "lat=2us";  // far above any noise of this machine
  comparison.widths = {10, 60};
  comparison.fast_bytes = {75};
  const absl::StatusOr<std::string> graph = BuildBaselineGraph(options_.job);
  ASSERT_TRUE(graph.ok()) << graph.status();
  comparison.baseline_graph = *graph;
  ASSERT_TRUE(AddTiers(comparison, Sample(), &options_).ok());
  Progress progress(Progress::Show::kNever);
  const absl::StatusOr<std::vector<Json>> lines =
      RunBenchmark(options_, progress, [](const std::string&) {});
  ASSERT_TRUE(lines.ok()) << lines.status();
  for (const Json& line : *lines) {
    if (line["kind"] != "system") continue;
    const std::string name = line["system"].get<std::string>();
    const bool first = name.ends_with(" in DRAM") || name.ends_with("hnswlib's graph");
    EXPECT_EQ(line["cached"], !first) << name << ": programs share index files";
  }

  CheckAnswers(CurvesOf(*lines));
  const Json figures = FiguresOf(*lines);
  CheckReads(figures);
  const Json& slow = RowOf(figures, "HNSW all slow, emulated")["targets"][0];
  EXPECT_NEAR(slow["ratio"].get<double>(), 1, 1e-9);
  EXPECT_LT(slow["of_all_dram"].get<double>(), 0.5) << "2 us a touch show";
  EXPECT_LT(slow["of_without_latency"].get<double>(), 1);
  CheckFastBytes(figures);
  EXPECT_EQ(figures["noise"].size(), 2u) << "one at a time, and four in flight";

  std::ostringstream table;
  PrintTables(figures, table);
  EXPECT_THAT(table.str(), HasSubstr("at recall 0.9"));
  EXPECT_THAT(
      table.str(),
      HasSubstr("Memory Mode, fully associative, 75 B, model, emulated +2000 ns, 1 thread"));
  EXPECT_TRUE(WriteReport(figures, BenchmarkPage(), folder_ + "/report.html").ok());
}

}  // namespace
}  // namespace hmann::eval
