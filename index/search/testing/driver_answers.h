/// For tests: answers of a driver, and what it takes for two of them to be the same.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/search/testing/random_index.h"

namespace hmann {

/// What a driver has found for one query, and its work.
struct DriverAnswer {
  std::vector<Neighbour> nearest;
  Counters counters;
};

inline DriverAnswer MustSearch(AskedDriver& runner, const std::vector<std::byte>& query,
                               const SearchOptions& options) {
  DriverAnswer result;
  const absl::Status status =
      runner.Search(query.data(), options, &result.nearest, &result.counters, {});
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

inline std::vector<std::uint64_t> Labels(const std::vector<Neighbour>& nearest) {
  std::vector<std::uint64_t> labels;
  for (const Neighbour& neighbour : nearest) labels.push_back(neighbour.label);
  return labels;
}

inline void ExpectSameAnswer(const std::vector<Neighbour>& found,
                             const std::vector<Neighbour>& expected) {
  ASSERT_EQ(Labels(found), Labels(expected));
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].distance, expected[i].distance) << "neighbour " << i;
}

}  // namespace hmann
