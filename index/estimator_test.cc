// The quality of the codes' estimates on real vectors, through an index as users build
// it. For 1, 2 and 4 bits a dimension it checks bias, spread and tails for the
// members of each query's nearest cells. It uses the sample here.
// HMANN_ESTIMATOR=BASE,QUERIES prints and checks it for other data
// (--gtest_filter='*/cosine': under one metric).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "hmann/hmann.h"
#include "index/codes/code_layout.h"
#include "index/construct/pipeline.h"
#include "index/index_impl.h"

namespace hmann {
namespace {

constexpr std::uint64_t kQueries = 300;
constexpr std::uint32_t kCentroids = 16, kMembers = 32;
constexpr double kTailsAt[] = {1, 1.9, 3};

struct Tally {
  std::vector<double> bias_of_query;  ///< sum of estimate - exact, over that of |exact|
  double squares = 0, size = 0, count = 0;
  double above[3] = {}, below[3] = {};

  void Add(double estimate, double exact, double error) {
    bias_of_query.back() += estimate - exact;
    squares += (estimate - exact) * (estimate - exact);
    size += std::abs(exact);
    ++count;
    for (int i = 0; i < 3; ++i) {
      above[i] += estimate - exact > kTailsAt[i] * error ? 1 : 0;
      below[i] += exact - estimate > kTailsAt[i] * error ? 1 : 0;
    }
  }
  /// Relative to a mean distance; an inner product may have either sign and be near zero.
  double Deviation() const { return std::sqrt(squares / count) * count / size; }
  double Bias() const {
    double sum = 0;
    for (const double bias : bias_of_query) sum += bias;
    return sum / static_cast<double>(bias_of_query.size());
  }
  /// Standard error of Bias. Queries count as independent, but not the samples within
  /// one.
  double StandardError() const {
    double sum = 0;
    for (const double bias : bias_of_query) sum += (bias - Bias()) * (bias - Bias());
    const auto n = static_cast<double>(bias_of_query.size());
    return std::sqrt(sum / (n - 1) / n);
  }
};

Tally EstimateAroundQueries(const PlacedIndex& index, const VectorFile& queries) {
  Tally tally;
  std::vector<std::byte> query(index.kernels.row_bytes);
  CodeQuery code_query;
  std::vector<std::pair<float, NodeId>> centroids;  // those that have members
  for (std::uint64_t q = 0; q < std::min(kQueries, queries.n()); ++q) {
    EXPECT_TRUE(EncodeRow(index.kernels, queries.Row(q), query.data()).ok());
    code_query.Prepare(*index.encoder, query.data());
    const auto distance_to = [&](const std::byte* row) {
      return index.kernels.ToDistance(index.kernels.one(query.data(), row, index.kernels.dim));
    };
    centroids.clear();
    for (NodeId centroid = 0; centroid < index.n1(); ++centroid) {
      const auto [begin, end] = index.cells->MembersOf(centroid);
      if (begin < end) centroids.emplace_back(distance_to(index.FastRow(centroid)), centroid);
    }
    const std::size_t nearest = std::min<std::size_t>(kCentroids, centroids.size());
    std::partial_sort(centroids.begin(), centroids.begin() + static_cast<std::ptrdiff_t>(nearest),
                      centroids.end());
    tally.bias_of_query.push_back(0);
    const double before = tally.size;
    for (std::size_t h = 0; h < nearest; ++h) {
      const auto [centroid_distance, centroid] = centroids[h];
      const auto [begin, end] = index.cells->MembersOf(centroid);
      for (NodeId id = begin; id < std::min(end, begin + kMembers); ++id) {
        const float exact = distance_to(index.Record(id));
        if (exact == 0) continue;
        const std::byte* code = index.Code(id);
        const float gap = code_query.SquaredGap(index.FastRow(centroid), centroid_distance);
        float estimate, error;
        code_query.Estimate(&code, &centroid_distance, 1, &estimate, &error, &gap);
        tally.Add(estimate, exact, error);
      }
    }
    tally.bias_of_query.back() /= std::max(1e-9, tally.size - before);
  }
  return tally;
}

class Estimator : public testing::TestWithParam<Metric> {};
INSTANTIATE_TEST_SUITE_P(Under, Estimator,
                         testing::Values(Metric::kL2, Metric::kCosine, Metric::kInnerProduct),
                         [](const auto& param) { return std::string(Name(param.param)); });

TEST_P(Estimator, IsUnbiasedAndKeepsItsErrorOnRealVectors) {
  const char* requested = std::getenv("HMANN_ESTIMATOR");
  const std::string files =
      requested != nullptr ? requested : "datasets/sample/base.u8bin,datasets/sample/query.u8bin";
  const std::size_t comma = files.find(',');
  ASSERT_NE(comma, std::string::npos) << "HMANN_ESTIMATOR: expected BASE,QUERIES, found " << files;
  const absl::StatusOr<VectorFile> queries = VectorFile::Open(files.substr(comma + 1));
  ASSERT_TRUE(queries.ok()) << queries.status();
  const std::string built = absl::StrCat(testing::TempDir(), "estimator_", ::getpid(), ".hmann");
  std::cout << "bits  bias % of the distance (standard error)  deviation %  beyond 1 / 1.9 / 3 "
               "errors above, below %\n";
  double last_deviation = 1e9;
  for (const unsigned bits : kCodeBits) {
    SCOPED_TRACE(absl::StrCat(bits, " bits"));
    BuildOptions build;
    if (bits == 1) {
      build.base = files.substr(0, comma);
      build.metric = GetParam();
    } else {
      build.from_index = built;
    }
    build.out = built;
    build.promote = 0.1;
    build.bits = bits;
    Progress quiet(Progress::Show::kNever);
    const absl::StatusOr<BuildReport> report = BuildIndex(build, quiet);
    ASSERT_TRUE(report.ok()) << report.status();
    const auto index = Index::Open(built);
    ASSERT_TRUE(index.ok()) << index.status();
    const Tally tally = EstimateAroundQueries(ImplOf(**index).placed(), *queries);
    const double deviation = tally.Deviation();
    const auto share = [&](const double(&beyond)[3]) {
      return absl::StrFormat("%.1f / %.2f / %.3f", 100 * beyond[0] / tally.count,
                             100 * beyond[1] / tally.count, 100 * beyond[2] / tally.count);
    };
    std::cout << absl::StrFormat("%4u  %+.3f (%.3f)  %.2f  ", bits, 100 * tally.Bias(),
                                 100 * tally.StandardError(), 100 * deviation)
              << share(tally.above) << ", " << share(tally.below) << "\n";
    // The rotation is one draw for all queries, which the standard error over queries
    // does not include. A tenth of the deviation is allowed for it.
    EXPECT_LT(std::abs(tally.Bias()), 3 * tally.StandardError() + 0.1 * deviation);
    EXPECT_LT(deviation, 0.65 * last_deviation) << "a bit more must pay";
    last_deviation = deviation;
    constexpr double kGaussian[] = {0.159, 0.029, 0.0014};
    for (int i = 0; i < 3; ++i) {
      EXPECT_LT(tally.above[i] / tally.count, 1.25 * kGaussian[i] + 0.002)
          << "beyond " << kTailsAt[i] << " errors";
      EXPECT_LT(tally.below[i] / tally.count, 1.25 * kGaussian[i] + 0.002)
          << "beyond " << kTailsAt[i] << " errors";
    }
  }
  std::filesystem::remove(built);
}

}  // namespace
}  // namespace hmann
