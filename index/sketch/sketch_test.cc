#include "index/sketch/sketch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <limits>

#include "absl/strings/str_cat.h"
#include "index/distance/simd_level.h"
#include "index/sketch/testing/sketch_samples.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

Sketcher MustMake(const StoredSample& stored, std::uint32_t bits, std::uint64_t seed = 3) {
  absl::StatusOr<Sketcher> sketcher = Sketcher::Make(stored.kernels, bits, seed, stored.mean);
  EXPECT_TRUE(sketcher.ok()) << sketcher.status();
  return *sketcher;
}

/// Estimates of every row, each for one query: row i for query i % queries.
struct Estimates {
  std::vector<double> exact;
  std::vector<float> estimates, errors;
};

Estimates EstimateAll(const SketchSample& sample, const StoredSample& stored, const Sketcher& sketcher) {
  const std::vector<std::byte> sketches = EncodeAll(sketcher, stored, sample.hub_of);
  const Kernels& kernels = stored.kernels;
  const std::size_t queries = sample.queries.size() / sample.dim;
  Estimates all;
  SketchQuery query;
  for (std::size_t q = 0; q < queries; ++q) {
    query.Prepare(sketcher, stored.Query(q));
    std::vector<const std::byte*> pointers;
    std::vector<float> hubs, gaps;
    for (std::size_t i = q; i < sample.size(); i += queries) {
      const std::byte* hub = stored.Hub(sample.hub_of[i]);
      pointers.push_back(sketches.data() + i * sketcher.sketch_bytes());
      hubs.push_back(kernels.ToDistance(kernels.one(stored.Query(q), hub, kernels.dim)));
      gaps.push_back(query.SquaredGap(hub, hubs.back()));
      all.exact.push_back(static_cast<double>(kernels.ToDistance(kernels.one(stored.Query(q), stored.Row(i), kernels.dim))));
    }
    std::vector<float> estimates(pointers.size()), errors(pointers.size());
    query.Estimate(pointers.data(), hubs.data(), pointers.size(), estimates.data(), errors.data(), gaps.data());
    all.estimates.insert(all.estimates.end(), estimates.begin(), estimates.end());
    all.errors.insert(all.errors.end(), errors.begin(), errors.end());
  }
  return all;
}

/// Beyond a normal distribution's tail by no more than chance allows, both ways; no bias; the errors are no gross exaggeration.
void ExpectHonestErrors(const Estimates& all, const std::string& what) {
  const double n = static_cast<double>(all.exact.size());
  double sum = 0, squares = 0;
  std::vector<double> deviations;
  for (std::size_t i = 0; i < all.exact.size(); ++i) {
    ASSERT_GT(all.errors[i], 0) << what;
    deviations.push_back((static_cast<double>(all.estimates[i]) - all.exact[i]) / static_cast<double>(all.errors[i]));
    sum += deviations.back();
    squares += deviations.back() * deviations.back();
  }
  EXPECT_LT(std::abs(sum / n), 4 * std::sqrt(squares / n / n)) << what << ": biased";
  EXPECT_GT(std::sqrt(squares / n), 0.75) << what << ": errors are too large";
  for (const auto& [beyond, share] : {std::pair(1.0, 0.159), {1.9, 0.0287}, {3.0, 0.00135}}) {
    const double most = share + 3 * std::sqrt(share * (1 - share) / n);
    for (const int side : {-1, 1}) {
      double found = 0;
      for (const double deviation : deviations) found += side * deviation > beyond;
      EXPECT_LE(found / n, most) << what << ": beyond " << side * beyond << " errors";
    }
  }
}

const SketchSample& Real() {
  static const auto* sample = new SketchSample(RealSample());
  return *sample;
}

TEST(Estimate, IsUnbiasedWithHonestErrorsOnRealVectors) {
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(Real(), metric);
    for (std::uint32_t bits = 1; bits <= 4; ++bits) {
      ExpectHonestErrors(EstimateAll(Real(), stored, MustMake(stored, bits)), absl::StrCat("metric ", Name(metric).data(), " bits ", bits));
    }
  }
}

TEST(Estimate, IsUnbiasedWithHonestErrorsOnFloatsOf96Dimensions) {
  const SketchSample sample = GenerateSample(DType::kF32, 96, 5000, 100, 0.1f, 0.3f);
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(sample, metric);
    for (std::uint32_t bits = 1; bits <= 4; ++bits) {
      ExpectHonestErrors(EstimateAll(sample, stored, MustMake(stored, bits)), absl::StrCat("metric ", Name(metric).data(), " bits ", bits));
    }
  }
}

TEST(Estimate, IsUnbiasedWithHonestErrorsOnBytesOf784Dimensions) {
  const SketchSample bytes = GenerateSample(DType::kU8, 784, 2000, 50, 90, 60);
  const SketchSample signed_bytes = GenerateSample(DType::kI8, 784, 2000, 50, 10, 40);
  for (const SketchSample* sample : {&bytes, &signed_bytes}) {
    for (const Metric metric : kMetrics) {
      const StoredSample stored = Store(*sample, metric);
      for (const std::uint32_t bits : {1u, 4u}) {
        ExpectHonestErrors(EstimateAll(*sample, stored, MustMake(stored, bits)),
                           absl::StrCat("metric ", Name(metric).data(), " bits ", bits));
      }
    }
  }
}

TEST(Estimate, EveryDimensionWorks) {
  for (const std::uint32_t dim : {1u, 2u, 3u, 7u, 100u, 128u, 784u, 1536u}) {
    const SketchSample sample = GenerateSample(DType::kF32, dim, 200, 10, 0.5f, 1);
    const StoredSample stored = Store(sample, Metric::kL2);
    for (std::uint32_t bits = 1; bits <= 4; ++bits) {
      const Sketcher sketcher = MustMake(stored, bits);
      EXPECT_EQ(sketcher.padded_dim(), (dim + 7) / 8 * 8);
      EXPECT_EQ(sketcher.sketch_bytes(), 4 + bits * sketcher.padded_dim() / 8);
      const Estimates all = EstimateAll(sample, stored, sketcher);
      for (std::size_t i = 0; i < all.exact.size(); ++i) {
        EXPECT_NEAR(all.estimates[i], all.exact[i], 5 * static_cast<double>(all.errors[i])) << "dim " << dim << " bits " << bits;
      }
    }
  }
}

TEST(Estimate, MoreBitsAreCloser) {
  const StoredSample stored = Store(Real(), Metric::kL2);
  double before = std::numeric_limits<double>::infinity();
  for (std::uint32_t bits = 1; bits <= 4; ++bits) {
    const Estimates all = EstimateAll(Real(), stored, MustMake(stored, bits));
    double sum = 0;
    for (std::size_t i = 0; i < all.exact.size(); ++i) sum += std::abs(static_cast<double>(all.estimates[i]) / all.exact[i] - 1);
    EXPECT_LT(sum, 0.65 * before) << "bits " << bits;
    before = sum;
  }
}

TEST(Estimate, ARowThatIsItsHubGetsTheHubsDistance) {
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(Real(), metric);
    const Sketcher sketcher = MustMake(stored, 2);
    std::vector<std::byte> sketch(sketcher.sketch_bytes(), std::byte{0xee});
    Sketcher::Scratch scratch;
    sketcher.Encode(stored.Hub(7), stored.Hub(7), sketch.data(), scratch);
    EXPECT_THAT(sketch, testing::Each(std::byte{0}));
    SketchQuery query;
    query.Prepare(sketcher, stored.Query(0));
    float estimate = 0, error = 1;
    query.EstimateCell(sketch.data(), 1, 0.75f, &estimate, &error, 1);
    EXPECT_EQ(estimate, 0.75f);
    EXPECT_EQ(error, 0.0f);
  }
}

TEST(Estimate, AQueryAtTheMeanIsExactButForTheHub) {
  StoredSample stored = Store(GenerateSample(DType::kF32, 16, 20, 2, 0, 1), Metric::kL2);
  std::memcpy(stored.mean.data(), stored.Query(0), 16 * sizeof(float));
  const Sketcher sketcher = MustMake(stored, 1);
  SketchQuery query;
  query.Prepare(sketcher, stored.Query(0));
  std::vector<std::byte> sketch(sketcher.sketch_bytes(), std::byte{0x55});
  float estimate = 0;
  const std::uint32_t factors = 0x3f800000u;  // A = 1, B = 0
  std::memcpy(sketch.data(), &factors, sizeof(factors));
  query.EstimateCell(sketch.data(), 1, 2, &estimate, nullptr);
  EXPECT_EQ(estimate, 3);
}

/// A cell's sketches one after another, and the same through pointers.
TEST(Estimate, ACellIsItsSketchesOneByOne) {
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(Real(), metric);
    for (std::uint32_t bits = 1; bits <= 4; ++bits) {
      const Sketcher sketcher = MustMake(stored, bits);
      const std::vector<std::uint32_t> one_hub(150, 4);
      const std::vector<std::byte> sketches = EncodeAll(sketcher, stored, one_hub);
      SketchQuery query;
      query.Prepare(sketcher, stored.Query(1));
      const float hub = stored.kernels.ToDistance(stored.kernels.one(stored.Query(1), stored.Hub(4), 128));
      const float gap = query.SquaredGap(stored.Hub(4), hub);
      for (const std::size_t n : {0, 1, 5, 31, 32, 33, 64, 150}) {
        const std::vector<float> hubs(n, hub), gaps(n, gap);
        std::vector<float> estimates(n), errors(n), cell_estimates(n), cell_errors(n);
        std::vector<const std::byte*> pointers;
        for (std::size_t i = 0; i < n; ++i) pointers.push_back(sketches.data() + i * sketcher.sketch_bytes());
        query.Estimate(pointers.data(), hubs.data(), n, estimates.data(), errors.data(), gaps.data());
        query.EstimateCell(sketches.data(), n, hub, cell_estimates.data(), cell_errors.data(), gap);
        EXPECT_EQ(estimates, cell_estimates);
        EXPECT_EQ(errors, cell_errors);
      }
    }
  }
}

TEST(Estimate, SquaredGapIsTheSquaredDistanceToTheHub) {
  const SketchSample sample = GenerateSample(DType::kF32, 50, 20, 5, 0.5f, 1);
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(sample, metric);
    SketchQuery query;
    query.Prepare(MustMake(stored, 1), stored.Query(0));
    double expected = 0;
    std::vector<float> a(50), b(50);
    std::memcpy(a.data(), stored.Query(0), 200);
    std::memcpy(b.data(), stored.Hub(2), 200);
    for (std::size_t i = 0; i < 50; ++i) expected += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    const float hub = stored.kernels.ToDistance(stored.kernels.one(stored.Query(0), stored.Hub(2), 50));
    EXPECT_NEAR(query.SquaredGap(stored.Hub(2), hub), expected, 1e-4 * expected);
  }
}

TEST(Levels, GiveTheSameSketchesAndTheSameEstimates) {
  for (const std::uint32_t bits : {1u, 2u, 3u, 4u}) {
    std::vector<std::byte> expected_sketches;
    Estimates expected;
    for (const SimdLevel& level : BuiltSimdLevels()) {
      if (!level.supported()) continue;
      const ForcedSimd forced(level.name);
      const StoredSample stored = Store(Real(), Metric::kL2);
      const Sketcher sketcher = MustMake(stored, bits);
      const std::vector<std::byte> sketches = EncodeAll(sketcher, stored, Real().hub_of);
      const Estimates found = EstimateAll(Real(), stored, sketcher);
      if (expected_sketches.empty()) expected_sketches = sketches, expected = found;
      EXPECT_TRUE(sketches == expected_sketches) << level.name;
      EXPECT_TRUE(found.estimates == expected.estimates && found.errors == expected.errors) << level.name;
    }
  }
}

TEST(Estimate, AnyBytesGiveOrderedNumbers) {
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(Real(), metric);
    for (std::uint32_t bits = 1; bits <= 4; ++bits) {
      const Sketcher sketcher = MustMake(stored, bits);
      const std::size_t bytes = sketcher.sketch_bytes(), n = 2000;
      std::vector<std::byte> sketches(n * bytes);
      for (std::size_t i = 0; i < sketches.size(); ++i) sketches[i] = static_cast<std::byte>(Random(bits, i));
      const std::uint32_t words[] = {0x7f800000u, 0x7fc00000u, 0xff800000u, 0xffffffffu,
                                     0x7fff7f80u, 0xff807fffu, 0x7f7f7f7fu, 0x80000000u};
      for (std::size_t i = 0; i < std::size(words); ++i) std::memcpy(sketches.data() + i * bytes, &words[i], 4);
      SketchQuery query;
      query.Prepare(sketcher, stored.Query(0));
      std::vector<float> estimates(n), errors(n);
      query.EstimateCell(sketches.data(), n, 1, estimates.data(), errors.data(), 1);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_TRUE(std::isfinite(estimates[i])) << i;
        EXPECT_TRUE(std::isfinite(errors[i]) && errors[i] >= 0) << i << ": " << errors[i];
      }
    }
  }
}

TEST(Estimate, LargestVectorsStayFinite) {
  const float big = std::sqrt(FLT_MAX / 4 / 16) * 0.99f;
  SketchSample sample{DType::kF32, 16, {}, {}, {}, {0, 0}};
  for (const float sign : {1.0f, -1.0f}) sample.rows.insert(sample.rows.end(), 16, sign * big);
  sample.hubs.assign(16, -big);
  sample.queries.assign(16, big);
  for (const Metric metric : {Metric::kL2, Metric::kInnerProduct}) {
    StoredSample stored = Store(sample, metric);
    stored.mean.assign(16, 0);
    for (std::uint32_t bits = 1; bits <= 4; ++bits) {
      const Estimates all = EstimateAll(sample, stored, MustMake(stored, bits));
      for (const float estimate : all.estimates) EXPECT_TRUE(std::isfinite(estimate));
      for (const float error : all.errors) EXPECT_TRUE(std::isfinite(error));
    }
  }
}

TEST(Make, RefusesWhatItCannotMean) {
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, 8);
  const auto message = [](const absl::StatusOr<Sketcher>& sketcher) {
    EXPECT_EQ(sketcher.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(sketcher.status().message());
  };
  EXPECT_THAT(message(Sketcher::Make(kernels, 0, 0, std::vector<float>(8))), HasSubstr("expected 1 to 4; found 0"));
  EXPECT_THAT(message(Sketcher::Make(kernels, 5, 0, std::vector<float>(8))), HasSubstr("expected 1 to 4; found 5"));
  EXPECT_THAT(message(Sketcher::Make(kernels, 2, 0, std::vector<float>(7))), HasSubstr("expected 8 components; found 7"));
  EXPECT_THAT(message(Sketcher::Make(kernels, 2, 0, std::vector<float>(8, std::nanf("")))), HasSubstr("mean"));
  EXPECT_THAT(message(Sketcher::Make(kernels, 2, 0, std::vector<float>(8, 1e30f))), HasSubstr("mean"));
  EXPECT_THAT(message(Sketcher::Make(Kernels{}, 2, 0, {})), HasSubstr("dimension"));
  Kernels unknown = kernels;
  unknown.simd = "sse9";
  EXPECT_THAT(message(Sketcher::Make(unknown, 2, 0, std::vector<float>(8))), HasSubstr("'sse9'"));
}

}  // namespace
}  // namespace hmann
