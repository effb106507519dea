#include "index/codes/encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <limits>

#include "absl/strings/str_cat.h"
#include "index/codes/testing/code_samples.h"
#include "index/distance/simd_level.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

Encoder MustMake(const StoredSample& stored, std::uint32_t bits, std::uint64_t seed = 3) {
  absl::StatusOr<Encoder> encoder = Encoder::Make(stored.kernels, bits, seed, stored.mean);
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return *encoder;
}

/// Estimates of every row for one query each: row i for query i % queries.
struct Estimates {
  std::vector<double> exact;
  std::vector<float> estimates, errors;
};

Estimates EstimateAll(const CodeSample& sample, const StoredSample& stored,
                      const Encoder& encoder) {
  const std::vector<std::byte> codes = EncodeAll(encoder, stored, sample.centroid_of);
  const Kernels& kernels = stored.kernels;
  const std::size_t queries = sample.queries.size() / sample.dim;
  Estimates all;
  CodeQuery query;
  for (std::size_t q = 0; q < queries; ++q) {
    query.Prepare(encoder, stored.Query(q));
    std::vector<const std::byte*> pointers;
    std::vector<float> centroids, gaps;
    for (std::size_t i = q; i < sample.size(); i += queries) {
      const std::byte* centroid = stored.Centroid(sample.centroid_of[i]);
      pointers.push_back(codes.data() + i * encoder.code_bytes());
      centroids.push_back(kernels.ToDistance(kernels.one(stored.Query(q), centroid, kernels.dim)));
      gaps.push_back(query.SquaredGap(centroid, centroids.back()));
      all.exact.push_back(static_cast<double>(
          kernels.ToDistance(kernels.one(stored.Query(q), stored.Row(i), kernels.dim))));
    }
    std::vector<float> estimates(pointers.size()), errors(pointers.size());
    query.Estimate(pointers.data(), centroids.data(), pointers.size(), estimates.data(),
                   errors.data(), gaps.data());
    all.estimates.insert(all.estimates.end(), estimates.begin(), estimates.end());
    all.errors.insert(all.errors.end(), errors.begin(), errors.end());
  }
  return all;
}

/// Expects tails no heavier than a normal distribution's beyond chance, on both sides, no
/// bias, and errors that are not grossly exaggerated.
void ExpectHonestErrors(const Estimates& all, const std::string& what) {
  const double n = static_cast<double>(all.exact.size());
  double sum = 0, squares = 0;
  std::vector<double> deviations;
  for (std::size_t i = 0; i < all.exact.size(); ++i) {
    ASSERT_GT(all.errors[i], 0) << what;
    deviations.push_back((static_cast<double>(all.estimates[i]) - all.exact[i]) /
                         static_cast<double>(all.errors[i]));
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

const CodeSample& Real() {
  static const auto* sample = new CodeSample(RealSample());
  return *sample;
}

TEST(Estimate, IsUnbiasedWithHonestErrorsOnRealVectors) {
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(Real(), metric);
    for (const unsigned bits : kCodeBits) {
      ExpectHonestErrors(EstimateAll(Real(), stored, MustMake(stored, bits)),
                         absl::StrCat("metric ", Name(metric).data(), " bits ", bits));
    }
  }
}

TEST(Estimate, IsUnbiasedWithHonestErrorsOnFloatsOf96Dimensions) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    const CodeSample sample = GenerateSample(dtype, 96, 5000, 100, 0.1f, 0.3f);
    for (const Metric metric : kMetrics) {
      const StoredSample stored = Store(sample, metric);
      for (const unsigned bits : kCodeBits) {
        ExpectHonestErrors(
            EstimateAll(sample, stored, MustMake(stored, bits)),
            absl::StrCat(Name(dtype).data(), ", metric ", Name(metric).data(), " bits ", bits));
      }
    }
  }
}

TEST(Estimate, IsUnbiasedWithHonestErrorsOnBytesOf784Dimensions) {
  const CodeSample bytes = GenerateSample(DType::kU8, 784, 2000, 50, 90, 60);
  const CodeSample signed_bytes = GenerateSample(DType::kI8, 784, 2000, 50, 10, 40);
  for (const CodeSample* sample : {&bytes, &signed_bytes}) {
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
    const CodeSample sample = GenerateSample(DType::kF32, dim, 200, 10, 0.5f, 1);
    const StoredSample stored = Store(sample, Metric::kL2);
    for (const unsigned bits : kCodeBits) {
      const Encoder encoder = MustMake(stored, bits);
      EXPECT_EQ(encoder.padded_dim(), (dim + 7) / 8 * 8);
      EXPECT_EQ(encoder.code_bytes(), 4 + bits * encoder.padded_dim() / 8);
      const Estimates all = EstimateAll(sample, stored, encoder);
      for (std::size_t i = 0; i < all.exact.size(); ++i) {
        EXPECT_NEAR(all.estimates[i], all.exact[i], 5 * static_cast<double>(all.errors[i]))
            << "dim " << dim << " bits " << bits;
      }
    }
  }
}

TEST(Estimate, MoreBitsAreCloser) {
  const StoredSample stored = Store(Real(), Metric::kL2);
  double before = std::numeric_limits<double>::infinity();
  for (const unsigned bits : kCodeBits) {
    const Estimates all = EstimateAll(Real(), stored, MustMake(stored, bits));
    double sum = 0;
    for (std::size_t i = 0; i < all.exact.size(); ++i)
      sum += std::abs(static_cast<double>(all.estimates[i]) / all.exact[i] - 1);
    EXPECT_LT(sum, 0.65 * before) << "bits " << bits;
    before = sum;
  }
}

TEST(Estimate, ARowThatIsItsCentroidGetsTheCentroidsDistance) {
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(Real(), metric);
    const Encoder encoder = MustMake(stored, 2);
    std::vector<std::byte> code(encoder.code_bytes(), std::byte{0xee});
    Encoder::Scratch scratch;
    encoder.Encode(stored.Centroid(7), stored.Centroid(7), code.data(), scratch);
    EXPECT_THAT(code, testing::Each(std::byte{0}));
    CodeQuery query;
    query.Prepare(encoder, stored.Query(0));
    float estimate = 0, error = 1;
    query.EstimateCell(code.data(), 1, 0.75f, &estimate, &error, 1);
    EXPECT_EQ(estimate, 0.75f);
    EXPECT_EQ(error, 0.0f);
  }
}

TEST(Estimate, AQueryAtTheMeanIsExactButForTheCentroid) {
  StoredSample stored = Store(GenerateSample(DType::kF32, 16, 20, 2, 0, 1), Metric::kL2);
  std::memcpy(stored.mean.data(), stored.Query(0), 16 * sizeof(float));
  const Encoder encoder = MustMake(stored, 1);
  CodeQuery query;
  query.Prepare(encoder, stored.Query(0));
  std::vector<std::byte> code(encoder.code_bytes(), std::byte{0x55});
  float estimate = 0;
  const std::uint32_t factors = 0x3f800000u;  // A = 1, B = 0
  std::memcpy(code.data(), &factors, sizeof(factors));
  query.EstimateCell(code.data(), 1, 2, &estimate, nullptr);
  EXPECT_EQ(estimate, 3);
}

/// The consecutive codes of a cell, and the same codes through pointers.
TEST(Estimate, ACellIsItsCodesOneByOne) {
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(Real(), metric);
    for (const unsigned bits : kCodeBits) {
      const Encoder encoder = MustMake(stored, bits);
      const std::vector<std::uint32_t> one_centroid(150, 4);
      const std::vector<std::byte> codes = EncodeAll(encoder, stored, one_centroid);
      CodeQuery query;
      query.Prepare(encoder, stored.Query(1));
      const float centroid =
          stored.kernels.ToDistance(stored.kernels.one(stored.Query(1), stored.Centroid(4), 128));
      const float gap = query.SquaredGap(stored.Centroid(4), centroid);
      for (const std::size_t n : {0, 1, 5, 31, 32, 33, 64, 150}) {
        const std::vector<float> centroids(n, centroid), gaps(n, gap);
        std::vector<float> estimates(n), errors(n), cell_estimates(n), cell_errors(n);
        std::vector<const std::byte*> pointers;
        for (std::size_t i = 0; i < n; ++i)
          pointers.push_back(codes.data() + i * encoder.code_bytes());
        query.Estimate(pointers.data(), centroids.data(), n, estimates.data(), errors.data(),
                       gaps.data());
        query.EstimateCell(codes.data(), n, centroid, cell_estimates.data(), cell_errors.data(),
                           gap);
        EXPECT_EQ(estimates, cell_estimates);
        EXPECT_EQ(errors, cell_errors);
      }
    }
  }
}

TEST(Estimate, SquaredGapIsTheSquaredDistanceToTheCentroid) {
  const CodeSample sample = GenerateSample(DType::kF32, 50, 20, 5, 0.5f, 1);
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(sample, metric);
    CodeQuery query;
    query.Prepare(MustMake(stored, 1), stored.Query(0));
    double expected = 0;
    std::vector<float> a(50), b(50);
    std::memcpy(a.data(), stored.Query(0), 200);
    std::memcpy(b.data(), stored.Centroid(2), 200);
    for (std::size_t i = 0; i < 50; ++i)
      expected += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    const float centroid =
        stored.kernels.ToDistance(stored.kernels.one(stored.Query(0), stored.Centroid(2), 50));
    EXPECT_NEAR(query.SquaredGap(stored.Centroid(2), centroid), expected, 1e-4 * expected);
  }
}

TEST(Levels, GiveTheSameCodesAndTheSameEstimates) {
  for (const unsigned bits : kCodeBits) {
    std::vector<std::byte> expected_codes;
    Estimates expected;
    for (const SimdLevel& level : BuiltSimdLevels()) {
      if (!level.supported()) continue;
      const ForcedSimd forced(level.name);
      const StoredSample stored = Store(Real(), Metric::kL2);
      const Encoder encoder = MustMake(stored, bits);
      const std::vector<std::byte> codes = EncodeAll(encoder, stored, Real().centroid_of);
      const Estimates found = EstimateAll(Real(), stored, encoder);
      if (expected_codes.empty()) expected_codes = codes, expected = found;
      EXPECT_TRUE(codes == expected_codes) << level.name;
      EXPECT_TRUE(found.estimates == expected.estimates && found.errors == expected.errors)
          << level.name;
    }
  }
}

TEST(Estimate, AnyBytesGiveOrderedNumbers) {
  for (const Metric metric : kMetrics) {
    const StoredSample stored = Store(Real(), metric);
    for (const unsigned bits : kCodeBits) {
      const Encoder encoder = MustMake(stored, bits);
      const std::size_t bytes = encoder.code_bytes(), n = 2000;
      std::vector<std::byte> codes(n * bytes);
      for (std::size_t i = 0; i < codes.size(); ++i)
        codes[i] = static_cast<std::byte>(Random(bits, i));
      const std::uint32_t words[] = {0x7f800000u, 0x7fc00000u, 0xff800000u, 0xffffffffu,
                                     0x7fff7f80u, 0xff807fffu, 0x7f7f7f7fu, 0x80000000u};
      for (std::size_t i = 0; i < std::size(words); ++i)
        std::memcpy(codes.data() + i * bytes, &words[i], 4);
      CodeQuery query;
      query.Prepare(encoder, stored.Query(0));
      std::vector<float> estimates(n), errors(n);
      query.EstimateCell(codes.data(), n, 1, estimates.data(), errors.data(), 1);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_TRUE(std::isfinite(estimates[i])) << i;
        EXPECT_TRUE(std::isfinite(errors[i]) && errors[i] >= 0) << i << ": " << errors[i];
      }
    }
  }
}

TEST(Estimate, LargestVectorsStayFinite) {
  const float big = std::sqrt(FLT_MAX / 4 / 16) * 0.99f;
  CodeSample sample{DType::kF32, 16, {}, {}, {}, {0, 0}};
  for (const float sign : {1.0f, -1.0f}) sample.rows.insert(sample.rows.end(), 16, sign * big);
  sample.centroids.assign(16, -big);
  sample.queries.assign(16, big);
  for (const Metric metric : {Metric::kL2, Metric::kInnerProduct}) {
    StoredSample stored = Store(sample, metric);
    stored.mean.assign(16, 0);
    for (const unsigned bits : kCodeBits) {
      const Estimates all = EstimateAll(sample, stored, MustMake(stored, bits));
      for (const float estimate : all.estimates) EXPECT_TRUE(std::isfinite(estimate));
      for (const float error : all.errors) EXPECT_TRUE(std::isfinite(error));
    }
  }
}

/// At 2^-46 and 2^58 the squares of distances do not fit f32.
TEST(Estimate, TheUnitOfLengthDoesNotMatter) {
  for (const Metric metric : {Metric::kL2, Metric::kInnerProduct}) {
    CodeSample sample = GenerateSample(DType::kF32, 16, 200, 10, 0.5f, 1);
    const StoredSample stored = Store(sample, metric);
    const Estimates expected = EstimateAll(sample, stored, MustMake(stored, 2));
    for (const int exponent : {-46, 58}) {
      const float unit = std::ldexp(1.0f, exponent);
      CodeSample moved = sample;
      for (auto* vectors : {&moved.rows, &moved.centroids, &moved.queries})
        for (float& component : *vectors) component *= unit;
      const StoredSample scaled = Store(moved, metric);
      Estimates found = EstimateAll(moved, scaled, MustMake(scaled, 2));
      for (auto* figures : {&found.estimates, &found.errors})
        for (float& figure : *figures) figure = figure / unit / unit;
      EXPECT_EQ(found.estimates, expected.estimates) << exponent;
      EXPECT_EQ(found.errors, expected.errors) << exponent;
    }
  }
}

TEST(Make, RefusesWhatItCannotMean) {
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, 8);
  const auto message = [](const absl::StatusOr<Encoder>& encoder) {
    EXPECT_EQ(encoder.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(encoder.status().message());
  };
  for (const std::uint32_t bits : {0u, 3u, 5u}) {
    EXPECT_THAT(message(Encoder::Make(kernels, bits, 0, std::vector<float>(8))),
                HasSubstr(absl::StrCat("expected 1, 2 or 4; found ", bits)));
  }
  EXPECT_THAT(message(Encoder::Make(kernels, 2, 0, std::vector<float>(7))),
              HasSubstr("expected 8 components; found 7"));
  EXPECT_THAT(message(Encoder::Make(kernels, 2, 0, std::vector<float>(8, std::nanf("")))),
              HasSubstr("mean"));
  EXPECT_THAT(message(Encoder::Make(kernels, 2, 0, std::vector<float>(8, 1e30f))),
              HasSubstr("mean"));
  EXPECT_THAT(message(Encoder::Make(Kernels{}, 2, 0, {})), HasSubstr("dimension"));
  Kernels unknown = kernels;
  unknown.simd = "sse9";
  EXPECT_THAT(message(Encoder::Make(unknown, 2, 0, std::vector<float>(8))), HasSubstr("'sse9'"));
}

}  // namespace
}  // namespace hmann
