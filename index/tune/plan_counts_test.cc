// What the planner says of an index before it is made, and of one that is, beside what
// queries on real ones count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "datasets/ground_truth.h"
#include "datasets/recall.h"
#include "datasets/vector_file.h"
#include "index/base/units.h"
#include "index/construct/fast_memory.h"
#include "index/tune/plan_index.h"

namespace hmann {
namespace {

constexpr const char* kQueries = "datasets/sample/query.u8bin";
constexpr const char* kFar = "emulated:lat=300ns";

double Share(std::uint64_t predicted, std::uint64_t real) {
  return static_cast<double>(predicted) / static_cast<double>(real);
}

/// Means over the sample's queries.
struct Measured {
  double recall = 0, hits = 0;  ///< hits: of the reads, in the cache
  AccessCounts counts;
};

Measured Measure(const std::string& path, const OpenOptions& open,
                 const SearchOptions& options = {}) {
  const auto index = Index::Open(path, open);
  const auto queries = VectorFile::Open(kQueries);
  const auto truth = ReadGroundTruth("datasets/sample/query.gt100");
  EXPECT_TRUE(index.ok() && queries.ok() && truth.ok()) << index.status();
  Searcher searcher(*index);
  Counters sums;
  Measured measured;
  const auto n = static_cast<double>(queries->n());
  Answer answer;
  for (std::uint64_t query = 0; query < queries->n(); ++query) {
    EXPECT_TRUE(searcher.Search(queries->Row(query), options, &answer, &sums).ok());
    std::vector<std::uint64_t> ids;
    std::vector<float> distances;
    for (const Neighbour& neighbour : answer.nearest) {
      ids.push_back(neighbour.label);
      distances.push_back(neighbour.distance);
    }
    measured.recall += RecallAtK(*truth, query, 10, ids, distances) / n;
  }
  const auto mean = [n](std::uint64_t sum) { return static_cast<double>(sum) / n; };
  measured.counts = {mean(sums.distances_fast), mean(sums.estimates), mean(sums.slow_reads),
                     mean(sums.rounds)};
  measured.hits = static_cast<double>(sums.cache_hits) /
                  static_cast<double>(std::max(sums.slow_touches, sums.slow_reads));
  return measured;
}

/// The sample, built once and promoted anew for each structure that is measured.
class CountsOfAnIndex : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    built_ = absl::StrCat(testing::TempDir(), "/plan_counts.hmann.", getpid());
    BuildOptions options;
    options.base = "datasets/sample/base.u8bin";
    options.out = built_;
    Make(options);
  }
  static void TearDownTestSuite() {
    std::remove(built_.c_str());
    std::remove(Promoted().c_str());
  }
  static std::string Promoted() { return built_ + ".promoted"; }

  static void Make(const BuildOptions& options) {
    Progress quiet(Progress::Show::kNever);
    const absl::StatusOr<BuildReport> report = Build(options, quiet);
    ASSERT_TRUE(report.ok()) << report.status();
  }
  static BuildOptions Promotion() {
    BuildOptions options;
    options.from_index = built_;
    options.out = Promoted();
    return options;
  }
  static IndexToPlan Promote(double share, std::uint32_t bits, std::uint32_t replicas = 1) {
    BuildOptions options = Promotion();
    options.promote = share;
    options.bits = bits;
    options.replicas = replicas;
    Make(options);
    return *DescribeIndex(Promoted());
  }

  static inline std::string built_;
};

/// The table is of a million other vectors and of shares from 0.15 to 80 %; a hundredth
/// as many are where it says least of itself, and of inserted graphs: those of a
/// partition need a sixth less.
TEST_F(CountsOfAnIndex, AreNearTheDefaultOnesAtTheirRecall) {
  SearchOptions dials;
  dials.epsilon = 0.01f;  // more would find more than 0.95 among so few
  for (const double share : {0.05, 0.2, 0.4}) {
    for (const std::uint32_t bits : {0u, 2u}) {
      SCOPED_TRACE(absl::StrCat(share, " promoted, ", bits, " bits"));
      const IndexToPlan index = Promote(share, bits);
      const AccessCounts expected = DefaultCounts(false, index.shape.n, index.structure);
      const Measured measured = Measure(Promoted(), {.slow = kFar}, dials);
      EXPECT_NEAR(measured.recall, 0.95, 0.025);
      EXPECT_NEAR(measured.counts.slow_reads / expected.slow_reads, 1, bits == 0 ? 0.25 : 0.4);
      EXPECT_NEAR(measured.counts.rounds / expected.rounds, 1, 0.4);
      if (bits > 0) {
        EXPECT_NEAR(measured.counts.estimates / expected.estimates, 1, 0.2);
      }
    }
  }
}

TEST_F(CountsOfAnIndex, AreTheSamplesScaleTimesTheDefaultOnes) {
  const IndexToPlan index = Promote(0.1, 2, 2);
  Progress quiet(Progress::Show::kNever);
  for (const bool block : {false, true}) {
    const absl::StatusOr<CountScale> scale = SampleCounts(Promoted(), kQueries, block, quiet);
    ASSERT_TRUE(scale.ok()) << scale.status();
    const AccessCounts expected = DefaultCounts(block, index.shape.n, index.structure);
    const AccessCounts counted = Measure(Promoted(), {.slow = block ? "nvme" : kFar}).counts;
    EXPECT_NEAR(scale->slow_reads * expected.slow_reads, counted.slow_reads,
                1e-6 * counted.slow_reads);
    EXPECT_NEAR(scale->distances_fast * expected.distances_fast, counted.distances_fast,
                1e-6 * counted.distances_fast);
    EXPECT_NEAR(scale->estimates * expected.estimates, counted.estimates, 1e-6 * counted.estimates);
    if (!block) {
      EXPECT_NEAR(scale->rounds * expected.rounds, counted.rounds, 1e-6 * counted.rounds);
    }
  }
}

TEST_F(CountsOfAnIndex, OfCachesAreNearTheSampledCurve) {
  const IndexToPlan index = Promote(0.1, 2);
  Progress quiet(Progress::Show::kNever);
  const absl::StatusOr<CountScale> scale = SampleCounts(Promoted(), kQueries, false, quiet);
  ASSERT_TRUE(scale.ok() && scale->cache.has_value()) << scale.status();
  const std::uint32_t record_bytes =
      HeaderOf(index.shape, index.structure)->Records().RecordBytes(index.structure.n1);
  for (const double share : {0.05, 0.3, 0.6}) {
    const auto bytes =
        static_cast<std::uint64_t>(share * static_cast<double>(index.shape.n)) * record_bytes;
    const Measured measured =
        Measure(Promoted(), {.slow = kFar, .cache = CachePolicy::kStatic, .cache_bytes = bytes});
    EXPECT_NEAR(measured.hits, scale->cache->Hits(share, 0.1), 0.07) << share;
  }
}

TEST_F(CountsOfAnIndex, OfBytesAreThePlannedOnes) {
  for (const auto& [bits, replicas] : {std::pair(0u, 1u), {4u, 1u}, {2u, 2u}}) {
    SCOPED_TRACE(absl::StrCat(bits, " bits, replicas ", replicas));
    const IndexToPlan index = Promote(0.2, bits, replicas);
    EXPECT_NEAR(Share(*PlannedFileBytes(index.shape, index.structure), index.file_bytes), 1, 0.01);
    const auto open = Index::Open(Promoted(), {.fast = "dram", .slow = "mapped"});
    ASSERT_TRUE(open.ok()) << open.status();
    std::uint64_t fast = 0, l0 = 0;
    for (const Placement& placement : (*open)->Placements()) {
      // Labels' order stays in the file, on every tier.
      if (placement.structure.starts_with("label_")) continue;
      (placement.structure == "l0" ? l0 : fast) += placement.bytes;
    }
    const Header header = *HeaderOf(index.shape, index.structure);
    EXPECT_NEAR(Share(FastBytes(FastShapeOf(header), index.structure.n1), fast), 1, 0.01);
    EXPECT_EQ(header.Records().TotalBytes(), l0);
  }
}

/// With the same fast memory and recall, on a device.
TEST_F(CountsOfAnIndex, ThePlanReadsAFractionOfWhatTheRuleOfThumbReads) {
  for (const std::uint64_t kib : {300u, 800u}) {
    PlanOptions options{.fast_memory_bytes = ReservedFastBytes(0, 1) + (kib << 10), .threads = 1};
    const auto measure = [&](const SearchOptions& dials) {
      const absl::StatusOr<PlannedBuild> planned = Plan(Promotion(), options);
      EXPECT_TRUE(planned.ok()) << planned.status();
      Make(planned->build);
      const auto index = Index::Open(Promoted(), {.fast = "dram", .slow = "nvme"});
      EXPECT_TRUE(index.ok()) << index.status();
      std::uint64_t fast = 0;
      for (const Placement& placement : (*index)->Placements())
        fast += placement.tier == "dram" ? placement.bytes : 0;
      EXPECT_LE(fast + ReservedFastBytes(options.fast_memory_bytes, 1), options.fast_memory_bytes);
      return Measure(Promoted(), {.slow = "nvme"}, dials);
    };
    SearchOptions wide;
    wide.epsilon = 0.3f;  // one bit with few centroids finds 0.9 by default
    const Measured plan = measure(wide);
    options.bits = 0;  // the paper's rule: as many promoted as fit
    const Measured rule = measure({});
    EXPECT_GT(plan.recall, 0.98);
    EXPECT_GT(rule.recall, 0.98);
    EXPECT_LT(plan.counts.slow_reads, rule.counts.slow_reads / 4);
    EXPECT_LT(plan.counts.rounds, rule.counts.rounds / 3);
  }
}

}  // namespace
}  // namespace hmann
