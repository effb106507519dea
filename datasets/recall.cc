#include "datasets/recall.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/check.h"
#include "index/base/errors.h"
#include "index/base/statistics.h"

namespace hmann {
namespace {

constexpr double kTie = 4e-7;

bool Ties(float a, float b) {
  return std::abs(double{a} - double{b}) <= kTie * std::abs(double{b});
}

}  // namespace

double RecallAtK(const GroundTruth& truth, std::uint64_t query, std::uint32_t k,
                 std::span<const std::uint64_t> ids, std::span<const float> distances) {
  HMANN_CHECK(k > 0 && k <= truth.k && query < truth.n);
  const std::span<const float> true_distances = truth.Distances(query);
  std::uint32_t good = k;
  while (!true_distances.empty() && good < truth.k && true_distances[good] == true_distances[k - 1])
    ++good;
  // Sorted, because k may be ten thousand.
  const std::span<const std::uint64_t> nearest = truth.Ids(query).first(good);
  std::vector<std::uint64_t> true_ids(nearest.begin(), nearest.end());
  std::sort(true_ids.begin(), true_ids.end());

  const std::size_t answers = std::min<std::size_t>(k, ids.size());
  std::vector<std::pair<std::uint64_t, std::size_t>> order;  // by id, then by place
  for (std::size_t i = 0; i < answers; ++i) order.emplace_back(ids[i], i);
  std::sort(order.begin(), order.end());
  std::uint32_t found = 0;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const auto [id, i] = order[at];
    if (id == kNoNeighbor || (at > 0 && order[at - 1].first == id)) continue;
    const bool listed = std::binary_search(true_ids.begin(), true_ids.end(), id);
    const bool tied = !listed && !true_distances.empty() && i < distances.size() &&
                      Ties(distances[i], true_distances[k - 1]);
    if (listed || tied) ++found;
  }
  return static_cast<double>(found) / k;
}

absl::Status CheckTruthCovers(const GroundTruth& truth, std::uint64_t queries, std::uint32_t k) {
  if (k > 0 && k <= truth.k && queries <= truth.n) return absl::OkStatus();
  return InvalidArgument("the ground truth holds ", truth.k, " neighbors of ", truth.n,
                         " queries; ", k, " neighbors of ", queries, " are needed");
}

RecallSummary SummarizeRecall(std::vector<double> per_query) {
  HMANN_CHECK(!per_query.empty());
  const double n = static_cast<double>(per_query.size());
  // Exact enough that 5,940 found of 6,000 reach a target of 0.99.
  const long double sum = std::accumulate(per_query.begin(), per_query.end(), 0.0L);
  RecallSummary summary{.mean = static_cast<double>(sum) / n, .p05 = 0};
  std::sort(per_query.begin(), per_query.end());
  summary.p05 = Percentile(per_query, 0.05);
  return summary;
}

}  // namespace hmann
