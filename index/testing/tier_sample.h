/// For tests: an index that is opened on many tiers, and the answers that it must give on
/// each.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datasets/vector_file.h"
#include "hmann/hmann.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {

inline constexpr std::uint64_t kTierQueries = 20;
inline constexpr SearchParams kTierParams{
    .ef_l0 = 64, .mode = SearchMode::kGraph};  ///< fixed, because defaults depend on the tier

struct TierAnswers {
  std::vector<std::vector<Neighbor>> nearest;
  std::vector<absl::Status> status;
  Counters total;
};

/// An index, with vectors close to some of its own as queries.
struct TierSample {
  TierSample(DType dtype, Metric metric, std::uint32_t dim, std::uint64_t n = 1500) {
    BuildOptions options = SmallBuild(folder, dtype, metric, n, dim);
    options.promote = 0.1;
    MustBuild(options);
    path = options.out;
    queries = *VectorFile::Open(options.base);
  }

  /// By default without scalar codes, because only some tiers have them.
  std::shared_ptr<const Index> Open(const std::string& slow,
                                    OpenOptions options = {.sq_bits = 0}) const {
    options.slow = slow;
    auto index = Index::Open(path, options);
    EXPECT_TRUE(index.ok()) << slow << ": " << index.status();
    return index.ok() ? *index : nullptr;
  }

  /// Runs all queries at once if the tier can. A query without an answer gives an empty
  /// list.
  TierAnswers Search(const std::shared_ptr<const Index>& index, const SearchParams& options,
                     std::uint32_t in_flight = 4, const SearchLimits& limits = {}) const {
    TierAnswers answers;
    answers.nearest.resize(kTierQueries);
    answers.status.resize(kTierQueries, absl::UnknownError("not answered"));
    const absl::StatusOr<ResolvedSearch> resolved = index->Resolve(options);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    if (!resolved.ok()) return answers;
    Searcher searcher(index);
    const absl::Status status = searcher.SearchMany(
        kTierQueries, [&](std::size_t i) { return queries.Row(i * 37 % queries.n()); },
        resolved->params, in_flight,
        [&](std::size_t i, const absl::Status& outcome, Answer& answer) {
          answers.status[i] = outcome;
          if (outcome.ok()) answers.nearest[i] = answer.nearest;
        },
        &answers.total, limits);
    EXPECT_TRUE(status.ok()) << status;
    return answers;
  }

  SampleFolder folder;
  std::string path;
  VectorFile queries;
};

inline void ExpectSameAnswers(const TierAnswers& found, const TierAnswers& expected) {
  for (std::size_t query = 0; query < kTierQueries; ++query) {
    ASSERT_TRUE(found.status[query].ok()) << found.status[query];
    ASSERT_EQ(found.nearest[query].size(), expected.nearest[query].size());
    for (std::size_t i = 0; i < found.nearest[query].size(); ++i) {
      ASSERT_EQ(found.nearest[query][i].label, expected.nearest[query][i].label)
          << "query " << query << ", neighbor " << i;
      ASSERT_EQ(found.nearest[query][i].distance, expected.nearest[query][i].distance);
    }
  }
}

inline const std::vector<SearchParams>& ManyTierParams() {
  static const std::vector<SearchParams> params = {
      {.k = 10, .mode = SearchMode::kGraph},
      {.k = 1, .ef_l1 = 1, .ef_l0 = 1, .mode = SearchMode::kGraph},
      {.k = 10, .ef_l1 = 4, .ef_l0 = 100, .mode = SearchMode::kGraph, .epsilon = 0.1f},
      {.k = 200, .ef_l1 = 3, .ef_l0 = 1, .mode = SearchMode::kGraph},
      {.k = 10, .ef_l1 = 20, .mode = SearchMode::kUpper},
      // With a wider L1 it may give up for a scan, at a moment that depends on the tier.
      {.k = 10, .ef_l1 = 2, .ef_l0 = 2, .mode = SearchMode::kMultiStart},
      {.k = 10,
       .ef_l1 = 16,
       .ef_l0 = 40,
       .mode = SearchMode::kQuantized,
       .nprobe = 0,
       .beam_width = 8},
      {.k = 10,
       .ef_l1 = 16,
       .ef_l0 = 100,
       .mode = SearchMode::kQuantized,
       .nprobe = 0,
       .beam_width = 8,
       .epsilon = 0.1f},
      {.k = 10,
       .ef_l1 = 15,
       .ef_l0 = 0,
       .mode = SearchMode::kQuantized,
       .nprobe = 30,
       .beam_width = 5},
      {.k = 100,
       .ef_l1 = 100,
       .ef_l0 = 20,
       .mode = SearchMode::kQuantized,
       .nprobe = 3,
       .beam_width = 64,
       .error_bound = 2},
      {.k = 40, .ef_l1 = 3, .ef_l0 = 1, .mode = SearchMode::kMultiStart},
  };
  return params;
}

}  // namespace hmann
