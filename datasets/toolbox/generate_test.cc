#include "datasets/toolbox/generate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "datasets/exact_distance.h"
#include "datasets/testing/temp_folder.h"
#include "datasets/vector_file.h"
#include "gmock/gmock.h"

namespace hmann {
namespace {

using testing::HasSubstr;

GenerateOptions Options(Shape shape, std::uint64_t n, std::uint32_t dim) {
  GenerateOptions options;
  options.shape = shape;
  options.n = n;
  options.dim = dim;
  return options;
}

std::vector<std::string> Rows(const GenerateOptions& options, DType dtype) {
  const auto generator = Generator::Make(options, dtype);
  EXPECT_TRUE(generator.ok()) << generator.status();
  std::vector<std::string> rows(options.n, std::string(options.dim * SizeOf(dtype), '\0'));
  for (std::uint64_t i = 0; i < options.n; ++i)
    generator->Row(i, reinterpret_cast<std::byte*>(rows[i].data()));
  return rows;
}

double Distance(DType dtype, const std::string& a, const std::string& b) {
  return ExactDistance(dtype, dtype, Metric::kL2, reinterpret_cast<const std::byte*>(a.data()),
                       reinterpret_cast<const std::byte*>(b.data()),
                       static_cast<std::uint32_t>(a.size() / SizeOf(dtype)));
}

/// Counts how often each row is among the k nearest of another.
std::vector<int> Occurrences(const std::vector<std::string>& rows, int k) {
  std::vector<int> count(rows.size(), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::pair<double, std::size_t>> near;
    for (std::size_t j = 0; j < rows.size(); ++j) {
      if (j != i) near.emplace_back(Distance(DType::kF32, rows[i], rows[j]), j);
    }
    std::partial_sort(near.begin(), near.begin() + k, near.end());
    for (int j = 0; j < k; ++j) ++count[near[static_cast<std::size_t>(j)].second];
  }
  return count;
}

/// Levina and Bickel's maximum-likelihood estimate of the local intrinsic dimension,
/// averaged over 50 rows.
double IntrinsicDimension(const std::vector<std::string>& rows) {
  constexpr std::size_t kNear = 20;
  double sum = 0;
  for (std::size_t i = 0; i < 50; ++i) {
    std::vector<double> near;
    for (std::size_t j = 0; j < rows.size(); ++j) {
      if (j != i) near.push_back(Distance(DType::kF32, rows[i], rows[j]));
    }
    std::partial_sort(near.begin(), near.begin() + kNear, near.end());
    double logs = 0;
    for (std::size_t j = 0; j + 1 < kNear; ++j) logs += 0.5 * std::log(near[kNear - 1] / near[j]);
    sum += (kNear - 1) / logs;
  }
  return sum / 50;
}

TEST(Generate, DoesNotDependOnThreadsAndIsTheSameEachTime) {
  const TempFolder folder;
  Progress progress(Progress::Show::kNever);
  for (const Shape shape : {Shape::kClustered, Shape::kUniform, Shape::kCentroids,
                            Shape::kDuplicates, Shape::kLattice}) {
    for (const char* suffix : {".fbin", ".u8bin", ".i8bin", ".fvecs", ".bvecs"}) {
      GenerateOptions options = Options(shape, 1000, 24);
      options.threads = 1;
      ASSERT_TRUE(Generate(options, folder / ("one" + std::string(suffix)), progress).ok());
      options.threads = 3;
      ASSERT_TRUE(Generate(options, folder / ("three" + std::string(suffix)), progress).ok());
      EXPECT_EQ(ReadAll(folder / ("one" + std::string(suffix))),
                ReadAll(folder / ("three" + std::string(suffix))))
          << Name(shape) << suffix;
      const auto file = VectorFile::Open(folder / ("one" + std::string(suffix)));
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ(file->n(), 1000u);
      EXPECT_TRUE(file->CheckFinite().ok());
    }
  }
}

TEST(Generate, GoesOnWhereTheBaseEnds) {
  const TempFolder folder;
  Progress progress(Progress::Show::kNever);
  GenerateOptions options = Options(Shape::kClustered, 30, 8);
  ASSERT_TRUE(Generate(options, folder / "all.u8bin", progress).ok());
  options.first = 20;
  options.n = 10;
  ASSERT_TRUE(Generate(options, folder / "end.u8bin", progress).ok());
  EXPECT_EQ(ReadAll(folder / "end.u8bin").substr(8),
            ReadAll(folder / "all.u8bin").substr(8 + 20 * 8));
}

TEST(Generate, ChangesWithTheSeed) {
  for (const Shape shape :
       {Shape::kClustered, Shape::kUniform, Shape::kCentroids, Shape::kDuplicates}) {
    GenerateOptions options = Options(shape, 10, 8);
    const auto one = Rows(options, DType::kF32);
    options.seed = 2;
    EXPECT_NE(one, Rows(options, DType::kF32)) << Name(shape);
  }
}

TEST(Generate, ClusteredHasLowIntrinsicDimensionAndUniformHasNot) {
  GenerateOptions options = Options(Shape::kClustered, 2000, 96);
  options.clusters = 4;
  options.intrinsic_dim = 6;
  const double clustered = IntrinsicDimension(Rows(options, DType::kF32));
  EXPECT_GT(clustered, 3);
  EXPECT_LT(clustered, 9);
  EXPECT_GT(IntrinsicDimension(Rows(Options(Shape::kUniform, 2000, 96), DType::kF32)), 20);
}

TEST(Generate, CentroidsAreNeighborsOfMostOthers) {
  const std::vector<int> centroids =
      Occurrences(Rows(Options(Shape::kCentroids, 600, 64), DType::kF32), 5);
  const std::vector<int> uniform =
      Occurrences(Rows(Options(Shape::kUniform, 600, 64), DType::kF32), 5);
  EXPECT_GT(*std::max_element(centroids.begin(), centroids.end()), 200);
  EXPECT_GT(*std::max_element(centroids.begin(), centroids.end()),
            3 * *std::max_element(uniform.begin(), uniform.end()));
}

TEST(Generate, HalfOfTheDuplicatesSetAreCopies) {
  for (const DType dtype : {DType::kF32, DType::kU8, DType::kI8, DType::kF16}) {
    const auto rows = Rows(Options(Shape::kDuplicates, 2000, 32), dtype);
    std::map<std::string, int> copies;
    for (const std::string& row : rows) ++copies[row];
    EXPECT_EQ(copies.size(), 1000u);
    int most = 0;
    for (const auto& [row, count] : copies) most = std::max(most, count);
    EXPECT_GT(most, 20) << "some vectors are there many times";
  }
}

TEST(Generate, LatticeDistancesAreArithmetic) {
  GenerateOptions options = Options(Shape::kLattice, 27, 5);
  options.side = 3;
  for (const DType dtype : {DType::kF32, DType::kU8, DType::kI8}) {
    const auto rows = Rows(options, dtype);
    for (std::uint64_t a = 0; a < 27; ++a) {
      for (std::uint64_t b = 0; b < 27; ++b) {
        const auto axis = [](std::uint64_t i, int c) {
          return static_cast<double>(c == 0 ? i % 3 : c == 1 ? i / 3 % 3 : i / 9);
        };
        double expected = 0;
        for (int c = 0; c < 3; ++c)
          expected += (axis(a, c) - axis(b, c)) * (axis(a, c) - axis(b, c));
        EXPECT_EQ(Distance(dtype, rows[a], rows[b]), expected);
      }
    }
  }
}

TEST(Generate, UsesTheWholeRangeOfBytes) {
  const auto bytes = Rows(Options(Shape::kUniform, 1, 20'000), DType::kU8)[0];
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end(), [](char a, char b) {
    return static_cast<unsigned char>(a) < static_cast<unsigned char>(b);
  });
  EXPECT_EQ(static_cast<unsigned char>(*least), 0);
  EXPECT_EQ(static_cast<unsigned char>(*most), 255);
  const auto clustered = Rows(Options(Shape::kClustered, 1000, 32), DType::kI8);
  double mean = 0;
  for (const std::string& row : clustered) {
    for (const char c : row) mean += static_cast<signed char>(c);
  }
  EXPECT_LT(std::abs(mean / 32'000), 10);
}

TEST(Generate, NamesABadOption) {
  const auto message = [](GenerateOptions options) {
    return std::string(Generator::Make(options, DType::kU8).status().message());
  };
  EXPECT_THAT(message(Options(Shape::kUniform, 0, 4)), HasSubstr("n: 0 found"));
  EXPECT_THAT(message(Options(Shape::kUniform, 1, 0)), HasSubstr("dim: 0 found"));
  EXPECT_THAT(message(Options(Shape::kUniform, 1, 40'000)), HasSubstr("dim: 40000 found"));
  GenerateOptions options = Options(Shape::kClustered, 1, 4);
  options.clusters = 0;
  EXPECT_THAT(message(options), HasSubstr("clusters: 0 found"));
  options = Options(Shape::kLattice, 1000, 2);
  options.side = 10;
  EXPECT_THAT(message(options), HasSubstr("100 points"));
  options.side = 300;
  EXPECT_THAT(message(options), HasSubstr("side: 300 found"));
  EXPECT_EQ(ParseShape("cluster").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*ParseShape("centroids"), Shape::kCentroids);
}

}  // namespace
}  // namespace hmann
