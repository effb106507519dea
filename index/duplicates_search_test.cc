// Data sets full of exact copies, from the vector file to the answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "datasets/toolbox/generate.h"
#include "hmann/hmann.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

/// A base of u8 vectors given by `value(row)`: row r is vector number value(r) of a
/// generated set. Builds, checks and opens its index.
class Copies : public testing::Test {
 protected:
  static constexpr std::uint32_t kDim = 16;

  void Make(std::uint32_t n, std::uint32_t (*value)(std::uint32_t)) {
    value_ = value;
    n_ = n;
    const Generator generator =
        *Generator::Make({.n = n, .dim = kDim, .intrinsic_dim = 8, .clusters = 20}, DType::kU8);
    std::vector<std::uint8_t> values(std::size_t{n} * kDim);
    for (std::uint32_t row = 0; row < n; ++row)
      generator.Row(value(row), reinterpret_cast<std::byte*>(&values[std::size_t{row} * kDim]));
    BuildOptions options;
    options.base = folder_ / "base.u8bin";
    WriteRows(options.base, kDim, values);
    options.out = folder_ / "index";
    options.m = 8;
    options.ef_construction = 60;
    options.threads = 2;
    report_ = MustBuild(options);
    Progress quiet(Progress::Show::kNever);
    EXPECT_TRUE(Verify(options.out, quiet).ok()) << "all are reachable";
    index_ = *Index::Open(options.out);
    base_ = *VectorFile::Open(options.base);
  }

  /// Searches for row `row` with k = its number of copies. Expects exactly all of them,
  /// at distance 0.
  void ExpectAllCopies(std::uint32_t row, const SearchParams& params) {
    std::set<std::uint64_t> expected;
    for (std::uint32_t other = 0; other < n_; ++other) {
      if (value_(other) == value_(row)) expected.insert(other);
    }
    SearchParams options = params;
    options.k = static_cast<std::uint32_t>(expected.size());
    Answer answer;
    Searcher searcher(index_);
    ASSERT_TRUE(searcher.Search(base_.Row(row), options, &answer).ok());
    std::set<std::uint64_t> found;
    for (const Neighbor& neighbor : answer.nearest) {
      if (neighbor.distance == 0) found.insert(neighbor.label);
    }
    EXPECT_EQ(found.size(), expected.size())
        << "copies of row " << row << ", mode "
        << (options.mode.has_value() ? static_cast<int>(*options.mode) : -1);
    EXPECT_TRUE(std::includes(expected.begin(), expected.end(), found.begin(), found.end()))
        << "something else at distance 0";
  }

  SampleFolder folder_;
  std::uint32_t (*value_)(std::uint32_t) = nullptr;
  std::uint32_t n_ = 0;
  BuildReport report_;
  std::shared_ptr<const Index> index_;
  VectorFile base_;
};

TEST_F(Copies, HalfOfAllRows) {
  Make(4000, [](std::uint32_t row) { return row % 2000; });
  EXPECT_EQ(report_.duplicates, 2000u);
  EXPECT_EQ(report_.self_recall_at_1, 1.0);
  for (std::uint32_t row = 0; row < 4000; row += 37)
    ExpectAllCopies(row, {.mode = SearchMode::kGraph});
}

TEST_F(Copies, AllRowsAreOne) {
  Make(1500, [](std::uint32_t) { return 7u; });
  EXPECT_EQ(report_.duplicates, 1499u);
  for (const SearchMode mode : {SearchMode::kGraph, SearchMode::kMultiStart})
    ExpectAllCopies(3, {.mode = mode});
}

TEST_F(Copies, TenVectorsAThousandTimesEach) {
  Make(10000, [](std::uint32_t row) { return row / 1000 * 97; });
  EXPECT_EQ(report_.duplicates, 9990u);
  EXPECT_EQ(report_.self_recall_at_1, 1.0);
  for (std::uint32_t row = 5; row < 10000; row += 1000) {
    ExpectAllCopies(row, {.mode = SearchMode::kGraph});
    // A beam of width 2 stops at the second of a thousand equals; wide ones do not.
    ExpectAllCopies(row, {.ef_l1 = 4, .ef_l0 = 1200, .mode = SearchMode::kMultiStart});
    Answer answer;
    ASSERT_TRUE(Searcher(index_)
                    .Search(base_.Row(row), {.k = 1, .mode = SearchMode::kMultiStart}, &answer)
                    .ok());
    EXPECT_EQ(answer.nearest[0].distance, 0) << "row " << row;
  }
}

TEST_F(Copies, AmongManyOthers) {
  // 3000 different vectors, and 300 more copies of 10 of them.
  Make(6000, [](std::uint32_t row) { return row < 3000 ? row : row % 10 * 300; });
  EXPECT_GE(report_.self_recall_at_1, 0.99);
  for (std::uint32_t value = 0; value < 3000; value += 150)
    ExpectAllCopies(value, {.mode = SearchMode::kGraph});
  Answer answer;
  Searcher searcher(index_);
  std::uint32_t found = 0;
  for (std::uint32_t row = 1; row < 3000; row += 10) {
    ASSERT_TRUE(searcher.Search(base_.Row(row), {.k = 1}, &answer).ok());
    found += answer.nearest[0].label == row ? 1 : 0;
  }
  EXPECT_GE(found, 297u) << "of 300 rows without copies";
}

}  // namespace
}  // namespace hmann
