// Norms of all sizes in one data set, from the vector file to the answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "datasets/toolbox/generate.h"
#include "hmann/hmann.h"
#include "index/base/status_macros.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

constexpr std::uint32_t kDim = 24, kRows = 3000, kRequested = 60;

/// Random directions; row `i` has a norm of about norm(i).
std::vector<float> WithNorms(const std::function<float(std::uint32_t)>& norm) {
  const Generator generator =
      *Generator::Make({.n = kRows, .dim = kDim, .intrinsic_dim = 16, .clusters = 50}, DType::kF32);
  std::vector<float> values(std::size_t{kRows} * kDim);
  for (std::uint32_t i = 0; i < kRows; ++i) {
    float* row = &values[std::size_t{i} * kDim];
    generator.Row(i, reinterpret_cast<std::byte*>(row));
    double square = 0;
    for (std::uint32_t c = 0; c < kDim; ++c) square += double{row[c]} * row[c];
    for (std::uint32_t c = 0; c < kDim; ++c)
      row[c] = static_cast<float>(row[c] / std::sqrt(square) * norm(i));
  }
  return values;
}

struct Norms : testing::TestWithParam<Metric> {
  /// Builds an index. Returns the mean recall@10 with the first vectors as queries and
  /// default parameters.
  absl::StatusOr<double> Recall(const std::vector<float>& values) {
    BuildOptions options;
    options.base = folder / "base.fbin";
    WriteRows(options.base, kDim, values);
    options.out = folder / "index";
    options.metric = GetParam();
    options.threads = 2;
    Progress quiet(Progress::Show::kNever);
    HMANN_RETURN_IF_ERROR(BuildIndex(options, quiet).status());
    EXPECT_TRUE(Verify(options.out, quiet).ok()) << "all are reachable";
    const auto index = *Index::Open(options.out);
    Searcher searcher(index);
    Answer answer;
    std::size_t found = 0;
    for (std::uint32_t i = 0; i < kRequested; ++i) {
      HMANN_RETURN_IF_ERROR(searcher.Search(&values[std::size_t{i} * kDim], {.k = 10}, &answer));
      const std::vector<std::uint64_t> exact = Nearest(values, i);
      for (const Neighbor& neighbor : answer.nearest) {
        EXPECT_TRUE(std::isfinite(neighbor.distance)) << i;
        found += static_cast<std::size_t>(std::count(exact.begin(), exact.end(), neighbor.label));
      }
    }
    return static_cast<double>(found) / (10.0 * kRequested);
  }
  /// The ten rows nearest to row `query`, in doubles.
  static std::vector<std::uint64_t> Nearest(const std::vector<float>& values, std::uint32_t query) {
    std::vector<std::pair<double, std::uint64_t>> all;
    for (std::uint32_t i = 0; i < kRows; ++i) {
      double l2 = 0, product = 0, square = 0;
      for (std::uint32_t c = 0; c < kDim; ++c) {
        const double x = values[query * kDim + c], y = values[i * kDim + c];
        l2 += (x - y) * (x - y);
        product += x * y;
        square += y * y;
      }
      all.emplace_back(GetParam() == Metric::kL2             ? l2
                       : GetParam() == Metric::kInnerProduct ? -product
                                                             : -product / std::sqrt(square),
                       i);
    }
    std::partial_sort(all.begin(), all.begin() + 10, all.end());
    std::vector<std::uint64_t> rows(10);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = all[i].second;
    return rows;
  }
  SampleFolder folder;
};

TEST_P(Norms, OfThirtyFiveOrdersOfMagnitudeInOneSetAreFound) {
  const auto recall = Recall(WithNorms([](std::uint32_t i) {
    return i % 3 == 0 ? 1e-18f : i % 3 == 1 ? 1.0f : 1e17f;
  }));
  ASSERT_TRUE(recall.ok()) << recall.status();
  EXPECT_GE(*recall, 0.9);
}

TEST_P(Norms, AsLargeAsDistancesAllowAreFound) {
  const auto recall = Recall(WithNorms([](std::uint32_t) { return 9e18f; }));
  ASSERT_TRUE(recall.ok()) << recall.status();
  EXPECT_GE(*recall, 0.9);
}

TEST_P(Norms, DenormalsAreFoundOrRefusedWhereTheirDistancesVanish) {
  for (const float norm : {1e-41f, 1e-30f, 3e-15f}) {
    const auto recall = Recall(WithNorms([norm](std::uint32_t) { return norm; }));
    if (GetParam() == Metric::kCosine) {
      ASSERT_TRUE(recall.ok()) << recall.status();
      EXPECT_GE(*recall, 0.9);
    } else {
      EXPECT_EQ(recall.status().code(), absl::StatusCode::kInvalidArgument) << norm;
      EXPECT_THAT(std::string(recall.status().message()),
                  testing::AllOf(testing::HasSubstr("largest squared norm"),
                                 testing::HasSubstr("scale the vectors")));
    }
  }
  EXPECT_TRUE(Recall(WithNorms([](std::uint32_t i) { return i == 7 ? 1e-30f : 1.0f; })).ok());
}

TEST_P(Norms, BeyondThatAreRefusedByNameExceptWhereOnlyDirectionsCount) {
  const auto recall =
      Recall(WithNorms([](std::uint32_t i) { return i % 2 == 0 ? 1e-20f : 1e20f; }));
  if (GetParam() == Metric::kCosine) {
    ASSERT_TRUE(recall.ok()) << recall.status();
    EXPECT_GE(*recall, 0.9);
  } else {
    EXPECT_EQ(recall.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(recall.status().message()),
        testing::AllOf(testing::HasSubstr("vector 1"), testing::HasSubstr("do not overflow")));
  }
}

INSTANTIATE_TEST_SUITE_P(Metrics, Norms,
                         testing::Values(Metric::kL2, Metric::kInnerProduct, Metric::kCosine),
                         [](const auto& one) { return std::string(Name(one.param)); });

}  // namespace
}  // namespace hmann
