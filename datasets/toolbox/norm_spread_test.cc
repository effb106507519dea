#include "datasets/toolbox/norm_spread.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "datasets/testing/temp_folder.h"
#include "datasets/toolbox/generate.h"
#include "datasets/vector_file.h"
#include "gmock/gmock.h"

namespace hmann {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kSpreadDim = 8;

class Spread : public testing::Test {
 protected:
  Spread() {
    options_.shape = Shape::kUniform;
    options_.n = 4000;
    options_.dim = kSpreadDim;
  }
  std::vector<float> Made(double sigma, std::uint64_t first, std::uint64_t n) {
    options_.norm_sigma = sigma;
    options_.first = first;
    options_.n = n;
    const std::string path = folder_ / "made.fbin";
    const absl::Status made = Generate(options_, path, progress_);
    EXPECT_TRUE(made.ok()) << made;
    const VectorFile file = *VectorFile::Open(path);
    std::vector<float> values(n * kSpreadDim);
    for (std::uint64_t i = 0; i < n; ++i)
      std::memcpy(values.data() + i * kSpreadDim, file.Row(i), kSpreadDim * sizeof(float));
    return values;
  }

  TempFolder folder_;
  Progress progress_{Progress::Show::kNever};
  GenerateOptions options_;
};

TEST_F(Spread, FactorsAreLognormalAndDirectionsStay) {
  const std::vector<float> plain = Made(0, 0, 4000), spread = Made(0.5, 0, 4000);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < 4000; ++i) {
    const double factor = std::log(spread[i * kSpreadDim] / plain[i * kSpreadDim]);
    sum += factor;
    squares += factor * factor;
    for (std::uint32_t c = 1; c < kSpreadDim; ++c)
      EXPECT_NEAR(std::log(spread[i * kSpreadDim + c] / plain[i * kSpreadDim + c]), factor, 1e-5);
  }
  // Within four standard errors.
  EXPECT_NEAR(sum / 4000, 0, 4 * 0.5 / std::sqrt(4000.0));
  EXPECT_NEAR(std::sqrt(squares / 4000), 0.5, 4 * 0.5 / std::sqrt(8000.0));
}

TEST_F(Spread, AVectorDependsOnItsNumberAlone) {
  const std::vector<float> all = Made(0.5, 0, 100), some = Made(0.5, 40, 10);
  EXPECT_EQ(std::vector(all.begin() + 40 * kSpreadDim, all.begin() + 50 * kSpreadDim), some);
}

TEST_F(Spread, RefusesIntegersAndSigmasThatAreNone) {
  options_.norm_sigma = 0.5;
  EXPECT_THAT(Generate(options_, folder_ / "made.u8bin", progress_).message(),
              HasSubstr("made.u8bin: a suffix of f32 expected"));
  for (const double sigma : {-0.1, 11.0, std::nan("")}) {
    options_.norm_sigma = sigma;
    const absl::Status refused = Generate(options_, folder_ / "made.fbin", progress_);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("norm-sigma"));
  }
}

}  // namespace
}  // namespace hmann
