#include "index/search/quantized_traversal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "index/search/testing/random_index.h"
#include "index/search/testing/reference_quantized.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

/// Runs the fast traversal and the reference from the same L1.
void ExpectQuantizedReference(const RandomIndex& index, std::uint64_t query_number,
                              const SearchParams& requested, float typical_distance = 0) {
  const PlacedIndex& placed = index.placed();
  const absl::StatusOr<ResolvedParams> resolved = requested.Resolve(placed.Context());
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  ResolvedParams options = *resolved;
  options.typical_distance = typical_distance;
  std::vector<std::byte> query(placed.kernels.row_bytes);
  ASSERT_TRUE(EncodeRow(placed.kernels, index.Query(query_number).data(), query.data()).ok());
  LayerScratch scratch;
  NullLayerCounters none;
  OpenBeam(placed.upper[0], query.data(), 0, std::max<std::uint32_t>(options.ef_l1, options.k),
           scratch, none);
  SearchLayer(placed.upper[0], query.data(), options.ef_l1, scratch, none);
  std::vector<ReferenceQuantized::Entry> w;
  std::set<NodeId> met;
  for (std::uint32_t i = 0; i < scratch.beam.size(); ++i)
    w.emplace_back(scratch.beam.key(i), scratch.beam.id(i));
  for (NodeId id = 0; id < placed.layers.n(); ++id) {
    if (scratch.visited.Contains(id)) met.insert(id);
  }
  ReferenceQuantized reference(index, query.data(), options);
  const std::vector<ReferenceQuantized::Entry> expected = reference.Run(w, met);

  TraversalCounters counters;
  counters.Clear(true);
  QuantizedTraversal traversal;
  std::vector<const std::byte*> records;
  traversal.Open({placed, query.data(), options, scratch, counters});
  while (!traversal.Done()) {
    records.clear();
    for (const NodeId id : traversal.Wanted()) records.push_back(placed.Record(id));
    traversal.Absorb(records);
  }
  std::vector<ReferenceQuantized::Entry> found;
  for (std::uint32_t i = 0; i < traversal.results().size(); ++i)
    found.emplace_back(traversal.results().key(i), traversal.results().id(i));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(std::set<NodeId>(counters.read.begin(), counters.read.end()), reference.read);
  EXPECT_EQ(counters.read.size(), reference.read.size()) << "no record twice";
  EXPECT_EQ(counters.total.hops, reference.hops);
  EXPECT_EQ(counters.total.estimates, reference.estimates);
  EXPECT_EQ(counters.total.distances_fast, reference.distances_fast);
  EXPECT_EQ(counters.total.distances_slow, reference.distances_slow);
}

TEST(QuantizedTraversal, IsTheReferenceAtManyParams) {
  std::uint64_t query = 0;
  for (const auto& [dtype, metric] :
       {std::pair(DType::kU8, Metric::kL2), std::pair(DType::kF32, Metric::kL2),
        std::pair(DType::kF32, Metric::kInnerProduct), std::pair(DType::kU8, Metric::kCosine),
        std::pair(DType::kF16, Metric::kCosine)}) {
    for (const std::uint32_t replicas : {1u, 2u}) {
      const RandomIndex index({.n = 400,
                               .n1 = 50,
                               .m = 4,
                               .dim = 9,
                               .dtype = dtype,
                               .metric = metric,
                               .seed = 3,
                               .bits = 2,
                               .replicas = replicas});
      for (const std::uint32_t ef_l0 : {0u, 1u, 10u, 60u, 400u}) {
        for (const std::uint32_t cells : {0u, 1u, 7u, 50u}) {
          for (const std::optional<float> stop : {std::optional<float>(), {0.0f}, {1.5f}}) {
            SCOPED_TRACE(absl::StrCat(absl::string_view(Name(dtype).data()), " ",
                                      absl::string_view(Name(metric).data()), " replicas ",
                                      replicas, ", ef_l0 ", ef_l0, ", cells ", cells, ", stop ",
                                      stop.value_or(-1)));
            for (const float epsilon : {-1.0f, -0.2f, 0.0f, 0.3f}) {
              if (epsilon > -1 && metric == Metric::kInnerProduct) continue;
              SCOPED_TRACE(absl::StrCat("epsilon ", epsilon));
              ++query;
              ExpectQuantizedReference(index, query,
                                       {.k = 10,
                                        .ef_l1 = 12,
                                        .ef_l0 = ef_l0,
                                        .mode = SearchMode::kQuantized,
                                        .nprobe = cells,
                                        .beam_width = 1 + static_cast<std::uint32_t>(query % 9),
                                        .error_bound = stop,
                                        .epsilon = epsilon});
              if (testing::Test::HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

/// The distance of the 10th is about 0.4, 1 and 3 times the typical one.
TEST(QuantizedTraversal, FollowsTheQueryAsTheReferenceDoes) {
  const RandomIndex index({.n = 400, .n1 = 50, .m = 4, .dim = 9, .seed = 3, .bits = 2});
  std::vector<Neighbor> nearest;
  ParamsExecutor runner(index.placed());
  ASSERT_TRUE(
      runner.Search(index.Query(0).data(), {.mode = SearchMode::kScan}, &nearest, nullptr, {})
          .ok());
  std::uint64_t query = 0;
  for (const float times : {0.4f, 1.0f, 3.0f}) {
    for (const std::uint32_t ef_l0 : {0u, 10u, 60u}) {
      for (const std::uint32_t cells : {0u, 1u, 4u, 50u}) {
        SCOPED_TRACE(absl::StrCat(times, " times, ef_l0 ", ef_l0, ", cells ", cells));
        for (int i = 0; i < 5; ++i) {
          ExpectQuantizedReference(index, ++query,
                                   {.k = 10,
                                    .ef_l1 = 12,
                                    .ef_l0 = ef_l0,
                                    .mode = SearchMode::kQuantized,
                                    .nprobe = cells,
                                    .beam_width = 4,
                                    .error_bound = 1.5f,
                                    .epsilon = -1.0f},
                                   nearest[9].distance / times);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(QuantizedTraversal, WithEveryParamOpenItIsExact) {
  for (const std::uint32_t bits : {1u, 2u, 4u}) {
    const RandomIndex index({.n = 500, .n1 = 60, .m = 4, .dim = 12, .seed = bits, .bits = bits});
    ParamsExecutor runner(index.placed());
    for (std::uint64_t q = 0; q < 20; ++q) {
      const std::vector<std::byte> query = index.Query(q);
      std::set<float> all;
      for (NodeId id = 0; id < 500; ++id)
        all.insert(index.placed().kernels.ToDistance(
            index.placed().kernels.one(query.data(), index.Row(id), 12)));
      std::vector<Neighbor> nearest;
      Counters counters;
      ASSERT_TRUE(runner
                      .Search(query.data(),
                              {.k = 1, .ef_l1 = 60, .ef_l0 = 500, .mode = SearchMode::kQuantized},
                              &nearest, &counters, {})
                      .ok());
      EXPECT_EQ(nearest[0].distance, *all.begin());
      EXPECT_GT(counters.estimates, 0u);
      ASSERT_TRUE(runner
                      .Search(query.data(),
                              {.k = 500, .ef_l1 = 60, .ef_l0 = 500, .mode = SearchMode::kQuantized},
                              &nearest, &counters, {})
                      .ok());
      EXPECT_EQ(nearest.size(), 500u) << "k is always filled";
    }
  }
}

TEST(QuantizedTraversal, ReadsNoRecordOfANodeThatDoesNotMatch) {
  const RandomIndex index({.n = 2000, .n1 = 200, .m = 4, .dim = 12, .seed = 5, .bits = 2});
  const PlacedIndex& placed = index.placed();
  Matches matches(placed.layers.n(), placed.Context().content_hash);
  for (NodeId id = 0; id < placed.layers.n(); ++id) {
    if (Random(9, id) % 5 == 0) matches.Add(id);
  }
  for (const std::int64_t ef_l0 : {0, 40}) {
    for (const bool scans : {false, true}) {
      SCOPED_TRACE(absl::StrCat("ef_l0 ", ef_l0, scans ? ", scan" : ""));
      const SearchParams requested{.k = 10,
                                   .ef_l1 = 50,
                                   .ef_l0 = ef_l0,
                                   .mode = SearchMode::kQuantized,
                                   .nprobe = 50,
                                   .matches = &matches};
      const absl::StatusOr<ResolvedParams> options = requested.Resolve(placed.Context());
      ASSERT_TRUE(options.ok()) << options.status();
      LayerScratch scratch;
      NullLayerCounters none;
      OpenBeam(placed.upper[0], index.Query(1).data(), 0, 50, scratch, none);
      SearchLayer(placed.upper[0], index.Query(1).data(), 50, scratch, none);
      TraversalCounters counters;
      counters.Clear(true);
      QuantizedTraversal traversal;
      const std::vector<std::byte> query = index.Query(1);
      traversal.Open({.index = placed,
                      .query = query.data(),
                      .params = *options,
                      .scratch = scratch,
                      .counters = counters,
                      .scans = scans});
      std::size_t of_matches = 0;
      std::vector<const std::byte*> records;
      for (; !traversal.Done(); traversal.Absorb(records)) {
        records.clear();
        for (const NodeId id : traversal.Wanted()) {
          records.push_back(placed.Record(id));
          EXPECT_TRUE(matches.Has(id)) << id;
          of_matches += id >= placed.n1() ? 1 : 0;
        }
      }
      EXPECT_GE(of_matches, 5u);
    }
  }
}

TEST(QuantizedTraversal, AnIndexWithoutCodesSaysSo) {
  const RandomIndex index({});
  ParamsExecutor runner(index.placed());
  std::vector<Neighbor> nearest;
  const absl::Status status =
      runner.Search(index.Query(1).data(), {.mode = SearchMode::kQuantized}, &nearest, nullptr, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("build it with --bits 2"));
}

TEST(QuantizedTraversal, DamagedRecordsNeverCrashASearch) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomIndex index(
        {.n = 200, .n1 = 40, .m = 3, .dim = 4, .seed = seed, .bits = 2, .replicas = 2});
    std::uint64_t counter = 0;
    index.Damage([&](std::byte* bytes, std::size_t size) {
      for (std::size_t i = 0; i < size; i += 1 + RandomBelow(seed, counter++, 40))
        bytes[i] = static_cast<std::byte>(Random(seed, counter++));
    });
    ParamsExecutor runner(index.placed());
    std::vector<Neighbor> nearest;
    for (const std::int64_t ef_l0 : {0, 30}) {
      const SearchParams options{
          .k = 20, .ef_l0 = ef_l0, .mode = SearchMode::kQuantized, .nprobe = 5};
      ASSERT_TRUE(runner.Search(index.Query(1).data(), options, &nearest, nullptr, {}).ok());
      EXPECT_LE(nearest.size(), 20u);
    }
  }
}

}  // namespace
}  // namespace hmann
