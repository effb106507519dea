#include "datasets/toolbox/resample.h"

#include <cstring>
#include <set>

#include "datasets/ground_truth.h"
#include "datasets/testing/temp_folder.h"
#include "datasets/toolbox/generate.h"
#include "gmock/gmock.h"

namespace hmann {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kRows = 1000;
constexpr std::uint32_t kDim = 24, kNear = 4;

/// A source whose rows are near those of the next numbers, so that mixed rows can be
/// identified.
class Resampled : public testing::Test {
 protected:
  Resampled() {
    GenerateOptions made;
    made.shape = Shape::kUniform;
    made.n = kRows;
    made.dim = kDim;
    EXPECT_TRUE(Generate(made, folder_ / "from.u8bin", progress_).ok());
    from_ = *VectorFile::Open(folder_ / "from.u8bin");
    for (std::uint32_t row = 0; row < kRows; ++row) {
      for (std::uint32_t j = 0; j < kNear; ++j)
        near_.push_back(static_cast<std::uint32_t>((row + j + 1) % kRows));
    }
    options_.n = 3000;
    options_.parts = 6;
    options_.near = kNear;
    options_.share = 0.5;
  }

  std::vector<std::string> Rows(const ResampleOptions& options) {
    const std::string path = folder_ / "made.u8bin";
    const absl::Status made = Resample(from_, near_, options, path, progress_);
    EXPECT_TRUE(made.ok()) << made;
    const VectorFile file = *VectorFile::Open(path);
    std::vector<std::string> rows;
    for (std::uint64_t i = 0; i < file.n(); ++i)
      rows.emplace_back(reinterpret_cast<const char*>(file.Row(i)), file.row_bytes());
    return rows;
  }

  /// Returns the rows of the source that one vector's parts come from; -1 for a part of
  /// no row.
  std::set<int> SourcesOf(const std::string& row, std::uint32_t parts) const {
    std::set<int> sources;
    const std::size_t length = kDim / parts;
    for (std::uint32_t part = 0; part < parts; ++part) {
      int source = -1;
      for (std::uint64_t r = 0; r < kRows && source < 0; ++r) {
        if (std::memcmp(row.data() + part * length, from_.Row(r) + part * length, length) == 0)
          source = static_cast<int>(r);
      }
      sources.insert(source);
    }
    return sources;
  }

  TempFolder folder_;
  Progress progress_{Progress::Show::kNever};
  VectorFile from_;
  std::vector<std::uint32_t> near_;
  ResampleOptions options_;
};

TEST_F(Resampled, EachPartIsOfARowAndThoseNearIt) {
  int mixed = 0;
  for (const std::string& row : Rows(options_)) {
    const std::set<int> sources = SourcesOf(row, options_.parts);
    ASSERT_FALSE(sources.contains(-1));
    mixed += sources.size() > 1 ? 1 : 0;
    // All lie within the row and its four followers, also around the end.
    bool within = false;
    for (const int first : sources) {
      bool all = true;
      for (const int other : sources) all = all && (other - first + 1000) % 1000 <= 4;
      within = within || all;
    }
    // The row itself may have given no part. Then they lie among its followers.
    ASSERT_TRUE(within);
  }
  EXPECT_GT(mixed, 2500);
}

TEST_F(Resampled, DoesNotDependOnThreadsAndALargerSetBeginsWithTheSmaller) {
  options_.threads = 1;
  const std::vector<std::string> one = Rows(options_);
  options_.threads = 7;
  EXPECT_EQ(Rows(options_), one);
  options_.first = 1000;
  options_.n = 500;
  EXPECT_EQ(Rows(options_), std::vector(one.begin() + 1000, one.begin() + 1500));
  options_.seed = 2;
  EXPECT_NE(Rows(options_), std::vector(one.begin() + 1000, one.begin() + 1500));
}

TEST_F(Resampled, QueriesAreOfRowsThatTheBaseIsNotMadeOf) {
  options_.share = 0;
  std::set<int> base, queries;
  for (const std::string& row : Rows(options_)) base.merge(SourcesOf(row, 1));
  EXPECT_EQ(base.size(), kRows - kRows / 100);
  options_.queries = true;
  options_.n = 100;
  for (const std::string& row : Rows(options_)) queries.merge(SourcesOf(row, 1));
  EXPECT_EQ(queries.size(), kRows / 100);
  for (const int row : queries) EXPECT_FALSE(base.contains(row));
  // Base vectors are not mixed with the queries' rows either.
  options_.share = 1;
  options_.queries = false;
  options_.n = 3000;
  for (const std::string& row : Rows(options_)) {
    for (const int source : SourcesOf(row, options_.parts)) ASSERT_FALSE(queries.contains(source));
  }
}

TEST_F(Resampled, BadOptionsAreNamed) {
  const auto error = [&](const ResampleOptions& options, const std::string& name) {
    const absl::Status status = Resample(from_, near_, options, folder_ / name, progress_);
    return std::string(status.message());
  };
  ResampleOptions options = options_;
  options.parts = kDim + 1;
  EXPECT_THAT(error(options, "x.u8bin"), HasSubstr("parts: 25 found, 1 to 24 ("));
  options = options_;
  options.share = 1.5;
  EXPECT_THAT(error(options, "x.u8bin"), HasSubstr("share: 1.5 found"));
  EXPECT_THAT(error(options_, "x.fbin"), HasSubstr("a suffix of u8 expected"));
  const VectorFile few = *VectorFile::Open(folder_ / "from.u8bin", 99);
  EXPECT_THAT(Resample(few, near_, options_, folder_ / "x.u8bin", progress_).message(),
              HasSubstr("from.u8bin: rows: 99 found, at least 100 expected"));
}

/// Points of a plane around the query: the distance of the i-th nearest grows as the root
/// of i.
TEST(Density, IsThatOfAPlane) {
  GroundTruth truth;
  truth.n = 1;
  truth.k = 1000;
  for (std::uint32_t i = 1; i <= truth.k; ++i) {
    truth.ids.push_back(i);
    truth.distances.push_back(static_cast<float>(i));  // squared
  }
  ASSERT_TRUE(DensityOf(truth).has_value());
  EXPECT_NEAR(DensityOf(truth)->intrinsic_dim, 2, 0.02);
  EXPECT_FLOAT_EQ(static_cast<float>(DensityOf(truth)->tenth), std::sqrt(10.0F));
  truth.distances[0] = -1;
  EXPECT_FALSE(DensityOf(truth).has_value());
  truth.distances.clear();
  EXPECT_FALSE(DensityOf(truth).has_value());
}

}  // namespace
}  // namespace hmann
