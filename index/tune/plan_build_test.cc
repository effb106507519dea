// hnswlib's vectorized loops prefetch past a list's end.
#define NO_MANUAL_VECTORIZATION

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hnswlib/hnswlib.h>

#include "hmann/build.h"
#include "hmann/tune.h"
#include "index/base/units.h"
#include "index/construct/fast_memory.h"
#include "index/construct/testing/build_samples.h"
#include "index/tune/plan_structure.h"

namespace hmann {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint32_t kDim = 64;
const PlanOptions kSmall{.fast_memory_bytes = 700_KiB, .threads = 1};

BuildOptions Request(const SampleFolder& folder) {
  BuildOptions build = SmallBuild(folder, DType::kU8, Metric::kL2, 3000, kDim);
  build.promote.reset();
  return build;
}

PlannedBuild MustPlan(const BuildOptions& build, const PlanOptions& options) {
  absl::StatusOr<PlannedBuild> planned = Plan(build, options);
  EXPECT_TRUE(planned.ok()) << planned.status();
  return planned.ok() ? *std::move(planned) : PlannedBuild();
}

/// Bytes of fast memory by the formula: 64-byte rows, labels of 4 bytes, no codes, and
/// the reserve.
std::uint64_t PlainFastBytes(NodeId n1, std::uint32_t m, std::uint64_t budget) {
  return Layers::Make(3000, n1, m).UpperLinkBytes() + std::uint64_t{n1} * (kDim + 4) +
         ReservedFastBytes(budget, 1);
}
/// Links, rows and labels each have a mapping of whole pages.
constexpr std::uint64_t kPages = 3 * 4_KiB;

TEST(Plan, BuildMakesWhatItSays) {
  const SampleFolder folder;
  const BuildOptions wish = Request(folder);
  const PlannedBuild planned = MustPlan(wish, kSmall);
  const auto n1 = static_cast<NodeId>(3000 * *planned.build.promote);
  const IndexInfo info = MustBuild(planned.build).info;
  EXPECT_EQ(info.layers[1].nodes, n1);
  EXPECT_EQ(info.codes.bits, planned.build.bits);
  EXPECT_EQ(planned.placement.structure,
            DescribeStructure(*ShapeOf(wish), {n1, info.codes.bits, *planned.build.replicas}));
  EXPECT_GT(info.codes.bits, 0u);
  EXPECT_EQ(planned.build.base, wish.base);
  EXPECT_EQ(planned.build.m, wish.m);
}

TEST(Plan, PromotesAsManyAsFitWhereBitsArePinned) {
  const SampleFolder folder;
  BuildOptions wish = Request(folder);
  wish.bits = 0;
  for (const std::uint64_t extra : {24_KiB, 100_KiB}) {
    const std::uint64_t budget = (ReservedFastBytes(0, 1) + extra) * 50 / 49;
    const PlannedBuild planned = MustPlan(wish, {.fast_memory_bytes = budget, .threads = 1});
    const IndexInfo info = MustBuild(planned.build).info;
    const auto n1 = static_cast<NodeId>(info.layers[1].nodes);
    EXPECT_LE(PlainFastBytes(n1, *wish.m, budget), budget);
    EXPECT_GT(PlainFastBytes(n1 + 1, *wish.m, budget) + kPages, budget);
    std::uint64_t written = 0;
    for (const StructureBytes& structure : info.bytes)
      written += structure.tier == "fast" ? structure.bytes : 0;
    EXPECT_EQ(written + 4 * std::uint64_t{n1} + ReservedFastBytes(budget, 1),
              PlainFastBytes(n1, *wish.m, budget))
        << "as the file says";
  }
  const PlannedBuild without = MustPlan(wish, kSmall);
  EXPECT_EQ(without.build.bits, 0u);
  wish.bits = 4;
  wish.replicas = 2;
  const PlannedBuild centroid = MustPlan(wish, kSmall);
  EXPECT_EQ(centroid.build.replicas, 2u);
  EXPECT_LT(*centroid.build.promote, *without.build.promote) << "codes take fast memory";
}

TEST(Plan, AnImportKeepsItsM) {
  const SampleFolder folder;
  BuildOptions wish = Request(folder);
  const VectorFile base = *VectorFile::Open(wish.base);
  hnswlib::L2SpaceI space(kDim);
  hnswlib::HierarchicalNSW<int> graph(&space, 3000, 9, 30);
  for (std::size_t row = 0; row < 3000; ++row) graph.addPoint(base.Row(row), row);
  wish.bits = 0;
  wish.from_hnswlib = folder / "theirs.bin";
  graph.saveIndex(wish.from_hnswlib);
  const std::uint64_t budget = (ReservedFastBytes(0, 1) + 50_KiB) * 50 / 49;
  const PlannedBuild planned = MustPlan(wish, {.fast_memory_bytes = budget, .threads = 1});
  EXPECT_EQ(ShapeOf(wish)->m, 9u);
  const IndexInfo info = MustBuild(planned.build).info;
  const auto n1 = static_cast<NodeId>(info.layers[1].nodes);
  EXPECT_LE(PlainFastBytes(n1, 9, budget), budget);
  EXPECT_GT(PlainFastBytes(n1 + 1, 9, budget) + kPages, budget);
}

TEST(Plan, KnowsAFinishedIndexByItsHeader) {
  const SampleFolder folder;
  BuildOptions made = Request(folder);
  made.alpha = 1.1f;
  MustBuild(made);
  BuildOptions again;
  again.from_index = made.out;
  again.out = folder / "again.hmann";
  const PlannedBuild planned = MustPlan(again, kSmall);
  EXPECT_EQ(ShapeOf(again)->n, 3000u);
  EXPECT_EQ(ShapeOf(again)->m, made.m);
  const PlannedBuild direct = MustPlan(made, kSmall);
  EXPECT_EQ(MustBuild(planned.build).info.content_hash, MustBuild(direct.build).info.content_hash);
}

TEST(Plan, WhatCannotBeIsNamed) {
  const SampleFolder folder;
  BuildOptions wish = Request(folder);
  const auto error = [&](const PlanOptions& options, absl::StatusCode code) {
    const absl::Status status = Plan(wish, options).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error({.fast_memory_bytes = 1000}, absl::StatusCode::kResourceExhausted),
              AllOf(HasSubstr("--fast-memory"), HasSubstr("is too small")));
  EXPECT_THAT(
      error({.fast_memory_bytes = 2_MiB, .slow = "tape"}, absl::StatusCode::kInvalidArgument),
      HasSubstr("tape"));
  wish.base = folder / "absent.u8bin";
  EXPECT_THAT(error({.fast_memory_bytes = 2_MiB}, absl::StatusCode::kNotFound),
              HasSubstr("absent.u8bin"));
}

}  // namespace
}  // namespace hmann
