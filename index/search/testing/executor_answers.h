/// For tests: answers of an executor, and their comparison.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/search/testing/random_index.h"

namespace hmann {

/// The results of an executor for one query, and its work.
struct ExecutorAnswer {
  std::vector<Neighbor> nearest;
  Counters counters;
};

inline ExecutorAnswer MustSearch(ParamsExecutor& runner, const std::vector<std::byte>& query,
                                 const SearchParams& options) {
  ExecutorAnswer result;
  const absl::Status status =
      runner.Search(query.data(), options, &result.nearest, &result.counters, {});
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

inline std::vector<std::uint64_t> Labels(const std::vector<Neighbor>& nearest) {
  std::vector<std::uint64_t> labels;
  for (const Neighbor& neighbor : nearest) labels.push_back(neighbor.label);
  return labels;
}

inline void ExpectSameAnswer(const std::vector<Neighbor>& found,
                             const std::vector<Neighbor>& expected) {
  ASSERT_EQ(Labels(found), Labels(expected));
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].distance, expected[i].distance) << "neighbor " << i;
}

}  // namespace hmann
