#include "datasets/toolbox/tags.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "datasets/testing/temp_folder.h"
#include "gmock/gmock.h"
#include "index/base/file.h"

namespace hmann {
namespace {

using testing::HasSubstr;

class Tags : public testing::Test {
 protected:
  Tags() { options_.dim = 2, options_.clusters = 16; }
  absl::Status Make(bool queries) {
    Progress quiet(Progress::Show::kNever);
    return GenerateTags(options_, queries, folder_ / "t.spmat", quiet);
  }
  /// The tags of each vector.
  std::vector<std::vector<std::int32_t>> Read() {
    const auto file = MappedFile::Open(folder_ / "t.spmat");
    EXPECT_TRUE(file.ok()) << file.status();
    const std::byte* at = file->bytes().data();
    std::vector<std::int64_t> ends(options_.n + 4);
    std::memcpy(ends.data(), at, 8 * ends.size());
    at += 8 * ends.size();
    EXPECT_EQ(ends[1], 20'000);
    EXPECT_EQ(file->bytes().size(), 8 * (ends.size() + static_cast<std::size_t>(ends[2])));
    std::vector<std::vector<std::int32_t>> tags(options_.n);
    for (std::size_t i = 0; i < options_.n; ++i) {
      tags[i].resize(static_cast<std::size_t>(ends[i + 4] - ends[i + 3]));
      std::memcpy(tags[i].data(), at, 4 * tags[i].size());
      at += 4 * tags[i].size();
    }
    return tags;
  }

  TempFolder folder_;
  GenerateOptions options_{.n = 20'000};
};

TEST_F(Tags, FollowZipfsLawAndHalfOfThemTheCluster) {
  ASSERT_TRUE(Make(false).ok());
  const auto tags = Read();
  std::map<std::size_t, int> sizes;
  std::vector<double> all(20'000), of_cluster(20'000), share(4);
  double mean = 0, vectors = 0;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    ++sizes[tags[i].size()];
    EXPECT_TRUE(std::is_sorted(tags[i].begin(), tags[i].end(), std::less_equal<>()));
    for (const std::int32_t tag : tags[i]) {
      ASSERT_TRUE(tag >= 0 && tag < 20'000);
      ++all[static_cast<std::size_t>(tag)];
      of_cluster[static_cast<std::size_t>(tag)] += ClusterOf(options_, i) == 3;
    }
    vectors += ClusterOf(options_, i) == 3;
    mean += static_cast<double>(tags[i].size()) / static_cast<double>(tags.size());
  }
  EXPECT_EQ(sizes.size(), 30u);
  EXPECT_EQ(sizes.begin()->first, 1u);
  EXPECT_NEAR(mean, 15.5, 0.3);
  // Each binary order of magnitude has about as many uses as the next one.
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t tag = 63u << 2 * i; tag < 63u << (2 * i + 1); ++tag) share[i] += all[tag];
  for (const double uses : share) EXPECT_NEAR(uses / share[0], 1, 0.2);
  // Tags 1023 to 2046 in cluster 3, if it were as all others: half of all uses are of one
  // in 16 of them.
  double own = 0, uses = 0;
  for (std::size_t tag = 1023; tag < 2047; ++tag) {
    const double expected = all[tag] * vectors / static_cast<double>(tags.size());
    own += of_cluster[tag] > 4 * expected;
    uses += of_cluster[tag] > 4 * expected ? of_cluster[tag] : 0;
  }
  EXPECT_NEAR(own, 64, 16);
  EXPECT_GT(uses, 0.4 * vectors * mean / 14.3);
}

TEST_F(Tags, OfQueriesOccurTogether) {
  ASSERT_TRUE(Make(false).ok());
  const auto tags = Read();
  options_.first = options_.n;
  options_.n = 500;
  ASSERT_TRUE(Make(true).ok());
  std::size_t two = 0;
  for (const auto& wanted : Read()) {
    ASSERT_TRUE(wanted.size() == 1 || wanted.size() == 2);
    two += wanted.size() == 2;
    EXPECT_TRUE(std::any_of(tags.begin(), tags.end(), [&](const auto& of_vector) {
      return std::includes(of_vector.begin(), of_vector.end(), wanted.begin(), wanted.end());
    }));
  }
  EXPECT_GT(two, 150u);
}

TEST_F(Tags, DependOnNumberAndSeedAlone) {
  ASSERT_TRUE(Make(false).ok());
  const auto tags = Read();
  options_.first = 7000, options_.n = 10;
  ASSERT_TRUE(Make(false).ok());
  const auto part = Read();
  EXPECT_TRUE(std::equal(part.begin(), part.end(), tags.begin() + 7000));
  options_.seed = 2;
  ASSERT_TRUE(Make(false).ok());
  EXPECT_NE(Read(), part);
}

TEST_F(Tags, ThatCannotBeAreNamed) {
  EXPECT_THAT(Make(true).ToString(), HasSubstr("behind those of the base"));
  options_.shape = Shape::kUniform;
  EXPECT_THAT(Make(false).ToString(), HasSubstr("not of kind uniform"));
  options_.shape = Shape::kClustered;
  Progress quiet(Progress::Show::kNever);
  EXPECT_THAT(GenerateTags(options_, false, folder_ / "t.csv", quiet).ToString(),
              HasSubstr("t.csv: expected suffix .spmat"));
}

}  // namespace
}  // namespace hmann
