#include "index/tune/build_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "index/construct/build_bytes.h"
#include "index/construct/insert.h"
#include "index/construct/join.h"
#include "index/construct/partition.h"
#include "index/construct/pipeline.h"
#include "index/construct/refine.h"
#include "index/construct/vectors.h"
#include "index/graph/select.h"

namespace hmann {
namespace {

constexpr const char* kBase = "datasets/sample/base.u8bin";

PlanShape Sample(std::uint64_t n = 5000) {
  PlanShape shape;
  shape.n = n;
  shape.dim = 128;
  return shape;
}

BuildEstimate MustEstimate(const PlanShape& shape, const PlanStructure& structure = {},
                           int threads = 2) {
  const auto estimate = EstimateBuild(shape, structure, threads);
  EXPECT_TRUE(estimate.ok()) << estimate.status();
  return estimate.ok() ? *estimate : BuildEstimate{};
}

Kernels g_real;
std::uint64_t g_distances = 0;

DistanceKey CountOne(const std::byte* query, const std::byte* row, std::size_t dim) {
  ++g_distances;
  return g_real.one(query, row, dim);
}

void CountMany(const std::byte* query, const std::byte* const* rows, std::size_t n, std::size_t dim,
               DistanceKey* out) {
  g_distances += n;
  g_real.many(query, rows, n, dim, out);
}

/// Distances that it really takes to insert the sample's first rows into L0.
double CountInserting(const PlanShape& shape) {
  const VectorFile file = *VectorFile::Open(kBase, shape.n);
  g_real = *ChooseKernels(shape.dtype, shape.metric, shape.dim);
  Kernels counting = g_real;
  counting.one = CountOne;
  counting.many = CountMany;
  g_distances = 0;
  Progress quiet(Progress::Show::kNever);
  ThreadPool alone(1);
  const Job job{alone, quiet};
  const StoredVectors rows = *LoadVectors(file, g_real, job);
  const auto n = static_cast<NodeId>(shape.n);
  std::vector<NodeId> nodes = {n};
  std::vector<std::uint32_t> max_degree = {2 * shape.m};
  for (NodeId next = n / shape.m; next > 0; next /= shape.m) {
    nodes.push_back(next);
    max_degree.push_back(shape.m);
  }
  InsertionGraph graph =
      *InsertionGraph::Make(nodes, max_degree, rows.rows.data(), rows.stride, counting);
  const float alpha = AlphaFor(shape.dtype, shape.metric, shape.alpha);
  EXPECT_TRUE(InsertNodes(graph, n, {shape.ef_construction, shape.m, shape.m, alpha}, job).ok());
  if (alpha > 1) {
    EXPECT_TRUE(RefineLinks(graph, n, alpha, job).ok());
  }
  return static_cast<double>(g_distances);
}

/// The estimate is of time, which is not distances alone; what changes the one changes
/// the other about as much.
TEST(EstimateBuild, ChangesAsTheDistancesDoThatABuildComputes) {
  PlanShape usual = Sample(), few = Sample(2500);
  usual.method = few.method = BuildMethod::kInsertion;
  PlanShape plain = usual, wide = usual, lean = usual;
  plain.alpha = 1;
  wide.ef_construction = 200;
  lean.m = 8;
  const double counted = CountInserting(usual), estimated = MustEstimate(usual).seconds;
  for (const auto& [shape, name] : {std::pair(few, "half as many"),
                                    {plain, "alpha 1"},
                                    {wide, "twice as wide"},
                                    {lean, "half of M"}}) {
    const double really = CountInserting(shape) / counted;
    EXPECT_NEAR(std::log(MustEstimate(shape).seconds / estimated / really), 0, std::log(1.5))
        << name << ": really " << really;
  }
  EXPECT_NEAR(MustEstimate(usual, {}, 1).seconds, 2 * estimated, 1e-9) << "on half the threads";
}

/// Distances that it really takes to compare all leaves' members, by vector.
double CountJoining(NodeId n) {
  const VectorFile file = *VectorFile::Open(kBase, n);
  g_real = *ChooseKernels(DType::kU8, Metric::kL2, file.dim());
  Kernels counting = g_real;
  counting.block = [](const std::byte* const* a, std::size_t na, const std::byte* const* b,
                      std::size_t nb, std::size_t dim, DistanceKey* out, std::size_t stride) {
    g_distances += na * nb;
    g_real.block(a, na, b, nb, dim, out, stride);
  };
  g_distances = 0;
  Progress quiet(Progress::Show::kNever);
  ThreadPool alone(1);
  const Job job{alone, quiet};
  StoredVectors rows = *LoadVectors(file, g_real, job);
  std::vector<std::uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0u);
  Partition partition = *Partition::Make(rows, counting, all, PartitionFor(n, 1), job);
  rows = *GatherVectors(rows, partition.order(), alone);
  NearestLists nearest = *NearestLists::Make(n, 32);
  EXPECT_TRUE(JoinLeaves(std::move(partition), rows, counting, nearest, job).ok());
  return static_cast<double>(g_distances) / n;
}

TEST(EstimateBuild, KnowsTheDistancesOfAPartition) {
  for (const NodeId n : {300u, 2500u, 10000u}) {
    const double counted = CountJoining(n);
    const PartitionWork work = WorkOfPartition(n);
    EXPECT_NEAR(std::log((work.to_leaders + work.in_leaves) / counted), 0, std::log(1.35))
        << counted;
  }
  PlanShape joined = Sample(1'000'000), inserted = joined;
  inserted.method = BuildMethod::kInsertion;
  const PlanStructure usual{160'000, 2, 1};
  EXPECT_LT(MustEstimate(joined, usual).seconds, MustEstimate(inserted, usual).seconds / 2);
  EXPECT_GT(MustEstimate(joined, usual).memory_bytes, MustEstimate(inserted, usual).memory_bytes);
}

TEST(EstimateBuild, KnowsTheFileAndTheMemory) {
  BuildOptions options;
  options.base = kBase;
  options.out = absl::StrCat(testing::TempDir(), "/build_estimate.hmann.", getpid());
  options.rows = 3000;
  options.ef_construction = 20;
  options.promote = 0.1;
  Progress quiet(Progress::Show::kNever);
  for (const std::uint32_t bits : {0u, 2u}) {
    options.bits = bits;
    const absl::StatusOr<BuildReport> report = BuildIndex(options, quiet);
    ASSERT_TRUE(report.ok()) << report.status();
    const BuildEstimate estimate = MustEstimate(*ShapeOf(options), {300, bits, 1});
    EXPECT_NEAR(
        static_cast<double>(estimate.file_bytes) / static_cast<double>(report->info.file_bytes), 1,
        0.01)
        << bits;
    const BuildShape shape{.n = 3000,
                           .n1 = 300,
                           .m = options.m,
                           .dim = 128,
                           .stride = 128,
                           .bits = bits,
                           .replicas = 1,
                           .method = BuildMethod::kPartition};
    EXPECT_EQ(estimate.memory_bytes, BuildBytes(shape))
        << "what index/construct/build_bytes_test.cc holds against the kernel's counts";
  }
  std::remove(options.out.c_str());
}

TEST(EstimateBuild, InnerProductsAreNotRefined) {
  PlanShape products = Sample(), refined = Sample();
  products.method = refined.method = BuildMethod::kInsertion;
  products.metric = refined.metric = Metric::kInnerProduct;
  products.alpha = 1;
  EXPECT_EQ(CountInserting(refined), CountInserting(products));
  EXPECT_EQ(MustEstimate(refined).seconds, MustEstimate(products).seconds);
  EXPECT_EQ(PlanShape().alpha, BuildOptions().alpha)
      << "who says nothing gets the build that says nothing";
}

TEST(EstimateBuild, AlphaIsChecked) {
  PlanShape shape = Sample();
  shape.alpha = 0.5f;
  EXPECT_EQ(EstimateBuild(shape, {100, 0, 1}, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hmann
