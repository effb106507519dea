// A filter of labels: it has all of its own and few others.
#include "index/label_filter.h"

#include <gtest/gtest.h>

#include <vector>

#include "index/base/random.h"

namespace hmann {
namespace {

/// The share of labels that are none of its own and that it takes for one.
double ShareOfOthers(const std::vector<std::uint64_t>& labels, std::uint64_t other_seed) {
  const auto filter = LabelFilter::Build(labels);
  EXPECT_TRUE(filter.ok()) << filter.status();
  EXPECT_LE(filter->bytes(), labels.size() * 5 / 4 + 64);
  for (const std::uint64_t label : labels) EXPECT_TRUE(filter->MayHave(label)) << label;
  constexpr std::uint64_t kOthers = 200'000;
  std::uint64_t taken = 0;
  for (std::uint64_t i = 0; i < kOthers; ++i)
    taken +=
        filter->MayHave(other_seed == 0 ? (std::uint64_t{1} << 40) + i : Random(other_seed, i));
  return static_cast<double>(taken) / kOthers;
}

TEST(LabelFilter, HasItsOwnLabelsAndFewOthers) {
  std::vector<std::uint64_t> any, rows, steps;
  for (std::uint64_t i = 0; i < 300'000; ++i) {
    any.push_back(Random(1, i));
    rows.push_back(i);
    steps.push_back(i << 32);
  }
  for (const auto& labels : {any, rows, steps}) {
    for (const std::uint64_t seed : {0, 2}) {
      const double share = ShareOfOthers(labels, seed);
      EXPECT_GT(share, 0.008);
      EXPECT_LT(share, 0.015);
    }
  }
}

TEST(LabelFilter, OfFewOrNoLabels) {
  EXPECT_EQ(ShareOfOthers({}, 2), 0);
  EXPECT_LT(ShareOfOthers({0}, 2), 0.001);
  EXPECT_LT(ShareOfOthers({0, 0, 7, ~std::uint64_t{0}}, 0), 0.001);
}

}  // namespace
}  // namespace hmann
