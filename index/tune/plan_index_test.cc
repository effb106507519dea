#include "index/tune/plan_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "index/base/units.h"

namespace hmann {
namespace {

/// The sample with 10 % promoted, 2 bits, built once for all tests.
class PlanOfAnIndex : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    path_ = absl::StrCat(testing::TempDir(), "/plan_index.hmann.", getpid());
    BuildOptions options;
    options.base = "datasets/sample/base.u8bin";
    options.out = path_;
    options.promote = 0.1;
    options.replicas = 2;
    Progress quiet(Progress::Show::kNever);
    const absl::StatusOr<BuildReport> report = Build(options, quiet);
    ASSERT_TRUE(report.ok()) << report.status();
    info_ = report->info;
  }
  static void TearDownTestSuite() { std::remove(path_.c_str()); }

  static PlanRequest Request(std::uint64_t fast_bytes) {
    PlanRequest request;
    const absl::StatusOr<IndexToPlan> index = DescribeIndex(path_);
    EXPECT_TRUE(index.ok()) << index.status();
    request.shape = index->shape;
    request.finished = index->structure;
    request.fast_bytes = fast_bytes;
    request.profile = DefaultProfile();
    return request;
  }

  static inline std::string path_;
  static inline IndexInfo info_;
};

double Share(std::uint64_t predicted, std::uint64_t real) {
  return static_cast<double>(predicted) / static_cast<double>(real);
}

TEST_F(PlanOfAnIndex, PredictsItsBytesWithinOnePercent) {
  const PlanRequest request = Request(64_MiB);
  const absl::StatusOr<std::uint64_t> file = PlannedFileBytes(request.shape, *request.finished);
  ASSERT_TRUE(file.ok());
  EXPECT_NEAR(Share(*file, info_.file_bytes), 1, 0.01);

  // What an open index says of itself.
  const absl::StatusOr<std::shared_ptr<const Index>> index =
      Index::Open(path_, {.fast = "dram", .slow = "mapped"});
  ASSERT_TRUE(index.ok()) << index.status();
  std::uint64_t fast = 0, l0 = 0;
  for (const Placement& placement : (*index)->Placements()) {
    // Labels' order stays in the file, on every tier.
    if (placement.structure.starts_with("label_")) continue;
    (placement.structure == "l0" ? l0 : fast) += placement.bytes;
  }
  const absl::StatusOr<Header> header = HeaderOf(request.shape, *request.finished);
  ASSERT_TRUE(header.ok());
  const std::uint64_t planned = FastBytes(FastShapeOf(*header), request.finished->n1);
  EXPECT_NEAR(Share(planned, fast), 1, 0.01);
  EXPECT_EQ(header->Records().TotalBytes(), l0);
  std::uint64_t named = 0;
  for (const StructureBytes& line : info_.bytes) named += line.tier == "fast" ? line.bytes : 0;
  EXPECT_NEAR(Share(planned, named), 1, 0.05) << "labels are on both tiers there";
}

/// Inner products have no `epsilon`, which is a default elsewhere.
TEST(SampleCounts, TakeEveryMetricOnEveryKindOfTier) {
  for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine}) {
    BuildOptions options;
    options.base = "datasets/sample/base.u8bin";
    options.rows = 1500;
    options.metric = metric;
    options.promote = 0.1;
    options.out = absl::StrCat(testing::TempDir(), "/sample_counts.hmann.", getpid());
    Progress quiet(Progress::Show::kNever);
    ASSERT_TRUE(Build(options, quiet).ok());
    for (const bool block_tier : {false, true}) {
      const absl::StatusOr<CountScale> scale =
          SampleCounts(options.out, "datasets/sample/query.u8bin", block_tier, quiet);
      ASSERT_TRUE(scale.ok()) << scale.status();
      EXPECT_NE(scale->slow_reads, 1) << "counted, not left as it was";
    }
    std::remove(options.out.c_str());
  }
}

TEST_F(PlanOfAnIndex, KnowsItsShape) {
  const PlanRequest request = Request(64_MiB);
  EXPECT_EQ(request.shape.n, info_.n);
  EXPECT_EQ(request.shape.dim, 128u);
  EXPECT_EQ(request.finished->n1, info_.n / 10);
  EXPECT_EQ(request.finished->bits, 2u);
  EXPECT_EQ(request.finished->replicas, 2u);
  EXPECT_EQ(DescribeIndex(path_ + ".absent").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PlanOfAnIndex, CountsASampleOfQueries) {
  Progress quiet(Progress::Show::kNever);
  for (const bool block : {false, true}) {
    const absl::StatusOr<CountScale> scale =
        SampleCounts(path_, "datasets/sample/query.u8bin", block, quiet);
    ASSERT_TRUE(scale.ok()) << scale.status();
    double before = 0;
    for (double cached = 0; cached <= 1; cached += 0.05) {
      const double hits = scale->cache->Hits(cached, 0.1);
      EXPECT_GE(hits, before - 1e-9) << block << ", " << cached;
      EXPECT_LE(hits, 1 + 1e-9);
      before = hits;
    }
    EXPECT_NEAR(scale->cache->Hits(1, 0.1), 1, 1e-6);
  }
  EXPECT_TRUE(SampleCounts(path_, "", false, quiet).ok())
      << "queries are made where none are given";
  EXPECT_EQ(SampleCounts(path_, "datasets/sample/absent.u8bin", false, quiet).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PlanOfAnIndex, FitsWhereTheKernelIsAsked) {
  const PlanRequest request = Request(24_MiB);
  const auto plan =
      PlanAgainst(request, [](const PlacementPlan& one) { return MeasureFastBytes(path_, one); });
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::StatusOr<std::uint64_t> taken = MeasureFastBytes(path_, *plan);
  ASSERT_TRUE(taken.ok());
  EXPECT_LE(*taken, request.fast_bytes);
}

}  // namespace
}  // namespace hmann
