#include "datasets/recall.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "index/base/check.h"
#include "index/base/errors.h"
#include "index/base/statistics.h"

namespace hmann {
namespace {

/// A few roundings of f32, as a share of what was rounded; and one, or a few of doubles.
constexpr double kTie = 4e-7, kOneRounding = 0x1p-23, kOfDoubles = 1e-13;

/// The ranks whose distances equal that of rank k; without distances, none.
struct Ties {
  std::uint32_t begin = 0, end = 0;
  bool are_cut = false;  ///< the truth may have had no room for all of them
  double tolerance = 0;  ///< of an answer's distance
};

Ties TiesOf(const GroundTruth& truth, std::uint64_t query, std::uint32_t k) {
  const std::span<const float> all = truth.Distances(query);
  if (all.empty() || !std::isfinite(all[k - 1])) return {k, k};
  if (std::abs(all[k - 1]) == kVanished) return {k - 1, k};
  const double kth = all[k - 1];
  // Roundings are a share of the terms: under L2 of the distance, under cosine of 1.
  double size = std::abs(kth);
  if (truth.metric == Metric::kCosine) size = std::max(size, 1.0);
  if (truth.metric == Metric::kInnerProduct)
    size = std::max({size, std::abs(double{all.front()}), std::abs(double{all.back()})});
  const double same = kOneRounding * std::abs(kth) + (size > std::abs(kth) ? kOfDoubles * size : 0);
  const auto ties = [&](std::uint32_t rank) { return std::abs(all[rank] - kth) <= same; };
  Ties found{k - 1, k};
  while (found.begin > 0 && ties(found.begin - 1)) --found.begin;
  while (found.end < truth.k && ties(found.end)) ++found.end;
  found.are_cut = found.end == truth.k && (truth.k == 1 || found.end - found.begin > 1);
  found.tolerance = kTie * (found.are_cut ? size : std::abs(kth));
  return found;
}

}  // namespace

double RecallAtK(const GroundTruth& truth, std::uint64_t query, std::uint32_t k,
                 std::span<const std::uint64_t> ids, std::span<const float> distances) {
  HMANN_CHECK(k > 0 && k <= truth.k && query < truth.n);
  const std::span<const float> true_distances = truth.Distances(query);
  const Ties ties = TiesOf(truth, query, k);
  // Sorted, because k may be ten thousand.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> true_ids;  // by id, with its rank
  for (std::uint32_t rank = 0; rank < ties.end; ++rank)
    true_ids.emplace_back(truth.Ids(query)[rank], rank);
  std::sort(true_ids.begin(), true_ids.end());

  const std::span<const std::uint64_t> ranked = truth.Ids(query).first(k);
  const auto missing = std::count(ranked.begin(), ranked.end(), kNoNeighbor);
  if (missing == k) return 1;
  const std::size_t answers = std::min<std::size_t>(k, ids.size());
  std::vector<std::pair<std::uint64_t, std::size_t>> order;  // by id, then by place
  for (std::size_t i = 0; i < answers; ++i) order.emplace_back(ids[i], i);
  std::sort(order.begin(), order.end());
  std::uint32_t nearer = 0, tied = 0;
  std::vector<float> others;  // distances of answers that the truth does not list
  double farthest = -std::numeric_limits<double>::infinity();  // of an answer known to tie
  for (std::size_t at = 0; at < order.size(); ++at) {
    const auto [id, i] = order[at];
    if (id == kNoNeighbor || (at > 0 && order[at - 1].first == id)) continue;
    const auto place = std::lower_bound(true_ids.begin(), true_ids.end(), std::pair(id, 0u));
    const bool listed = place != true_ids.end() && place->first == id;
    const bool ties_listed = listed && place->second >= ties.begin;
    nearer += listed && !ties_listed;
    tied += ties_listed;
    if (true_distances.empty() || i >= distances.size()) continue;
    if (!listed) others.push_back(distances[i]);
    if (ties_listed && ties.are_cut) farthest = std::max(farthest, double{distances[i]});
  }
  for (const float distance : others) {
    const double beyond = distance - double{true_distances[k - 1]};
    tied += std::abs(beyond) <= ties.tolerance || distance <= farthest;
  }
  // Ties fill the places of ties, not those of nearer neighbors that were missed.
  return static_cast<double>(nearer + std::min(tied, k - ties.begin)) / (k - missing);
}

double RecallOfMerged(const GroundTruth& truth, std::uint64_t query, std::uint32_t k,
                      std::uint32_t shards, std::span<const std::uint64_t> ids,
                      std::span<const float> distances) {
  if (shards == 1) return RecallAtK(truth, query, k, ids, distances);
  constexpr double kNegligible = 1e-6;
  const double here = 1.0 / shards;
  double sum = 0, weights = 0;
  for (std::uint32_t j = 1; j <= k; ++j) {
    const double chance =
        std::exp(std::lgamma(k + 1.0) - std::lgamma(j + 1.0) - std::lgamma(k - j + 1.0) +
                 j * std::log(here) + (k - j) * std::log1p(-here));
    if (chance < kNegligible * here) continue;
    weights += chance * j;
    sum += chance * j * RecallAtK(truth, query, j, ids, distances);
  }
  return sum / weights;
}

absl::Status CheckTruthCovers(const GroundTruth& truth, std::uint64_t queries, std::uint32_t k) {
  if (k > 0 && k <= truth.k && queries <= truth.n) return absl::OkStatus();
  if (queries > truth.n) {
    return InvalidArgument("the ground truth is of ", truth.n, " queries, but there are ", queries,
                           ": is one the wrong file?");
  }
  return InvalidArgument("the ground truth holds ", truth.k, " neighbors of a query, k is ", k);
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
