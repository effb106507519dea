#include "index/construct/jobs/leaders.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "index/base/random.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::size_t kRowsAtOnce = 256;  ///< rows that a block kernel compares with leaders
constexpr std::uint32_t kProbes = 8;      ///< neighborhoods of leaders that a vector searches

/// Chooses the `fan` smallest keys, in order; ties go to the first.
void ChooseNearest(std::span<const DistanceKey> keys, std::uint32_t fan, std::uint32_t* nearest) {
  std::uint32_t found = 0;
  for (std::uint32_t l = 0; l < keys.size(); ++l) {
    if (found == fan && keys[l] >= keys[nearest[fan - 1]]) continue;
    std::uint32_t at = found < fan ? found++ : fan - 1;
    for (; at > 0 && keys[nearest[at - 1]] > keys[l]; --at) nearest[at] = nearest[at - 1];
    nearest[at] = l;
  }
}

/// Orders `leaders` by halves. It takes two that are far from each other, puts the half
/// nearer to one before the other half, and orders each half in the same way.
void OrderByHalves(const Kernels& kernels, const std::function<const std::byte*(NodeId)>& row,
                   std::span<NodeId> leaders) {
  constexpr std::size_t kFew = 4;
  if (leaders.size() < kFew) return;
  std::vector<const std::byte*> rows;
  for (const NodeId leader : leaders) rows.push_back(row(leader));
  const auto keys_to = [&](std::size_t one) {
    std::vector<DistanceKey> keys(rows.size());
    kernels.block(rows.data(), rows.size(), &rows[one], 1, kernels.dim, keys.data(), 1);
    return keys;
  };
  const auto farthest = [](const std::vector<DistanceKey>& keys) {
    return static_cast<std::size_t>(std::max_element(keys.begin(), keys.end()) - keys.begin());
  };
  const std::size_t one = farthest(keys_to(0));
  const std::vector<DistanceKey> to_one = keys_to(one), to_other = keys_to(farthest(to_one));
  std::vector<std::pair<std::int64_t, NodeId>> order;
  for (std::size_t i = 0; i < leaders.size(); ++i)
    order.emplace_back(std::int64_t{to_one[i]} - std::int64_t{to_other[i]}, leaders[i]);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < leaders.size(); ++i) leaders[i] = order[i].second;
  OrderByHalves(kernels, row, leaders.first(leaders.size() / 2));
  OrderByHalves(kernels, row, leaders.subspan(leaders.size() / 2));
}

/// The rounds of k-means; in the last of them the means stay and only sizes are balanced.
/// In a round, a part twice as large as the others moves away by kStep of the mean
/// distance. A vector is a guest of parts that are up to kGuest times farther than its
/// home. All are guesses from SIFT and text (doc/notes/dropped.md).
constexpr int kRounds = 24, kStill = 6;
constexpr double kStep = 0.06, kGuest = 1.3;

/// Writes the stored form of a mean.
absl::Status WriteMean(const Kernels& kernels, const std::vector<float>& mean, std::byte* row) {
  if (IsFloat(kernels.dtype)) return EncodeRow(kernels, DType::kF32, mean.data(), row);
  std::vector<std::byte> whole(mean.size());
  for (std::size_t d = 0; d < mean.size(); ++d)
    whole[d] = static_cast<std::byte>(static_cast<int>(std::lround(mean[d])));
  return EncodeRow(kernels, whole.data(), row);
}

}  // namespace

std::uint32_t LeadersFor(std::size_t members, const PartitionOptions& options) {
  if (members <= options.leaf) return 1;
  const std::size_t wanted = 4 * members / (std::size_t{3} * options.leaf) + 1;
  return static_cast<std::uint32_t>(std::min<std::size_t>(wanted, options.leaders));
}

std::uint32_t FirstLeaders(std::size_t n, const PartitionOptions& options) {
  if (n <= options.leaf) return 1;
  const std::uint64_t members = options.followers > 0 ? options.followers : n * options.fan;
  const auto followers = static_cast<double>(members);
  const double below = 4.0 * options.fan_below * followers / (3.0 * options.leaf);
  const auto cheapest = static_cast<std::uint32_t>(std::sqrt(options.fan * below));
  if (cheapest > options.leaders)
    return std::max(options.leaders, static_cast<std::uint32_t>(followers / options.group));
  return std::min(LeadersFor(members, options), std::max(cheapest, options.fan + 1));
}

std::uint32_t NeighborhoodsOf(std::size_t leaders, const PartitionOptions& options) {
  if (leaders <= options.leaders) return 0;
  return static_cast<std::uint32_t>(std::sqrt(kProbes * static_cast<double>(leaders)));
}

std::vector<std::uint32_t> Sample(std::uint64_t seed, std::size_t n, std::uint32_t count) {
  std::vector<std::uint32_t> chosen;
  for (std::size_t j = n - count; j < n; ++j) {
    const auto number = static_cast<std::uint32_t>(RandomBelow(seed, j, j + 1));
    const auto at = std::lower_bound(chosen.begin(), chosen.end(), number);
    if (at != chosen.end() && *at == number)
      chosen.push_back(static_cast<std::uint32_t>(j));  // the highest so far
    else
      chosen.insert(at, number);
  }
  return chosen;
}

void Gather(std::span<const std::uint32_t> nearest, std::uint32_t fan, std::uint32_t leaders,
            std::vector<NodeId>* followers, std::vector<std::size_t>* ends) {
  std::vector<std::size_t> at(leaders + 1);
  for (const std::uint32_t leader : nearest) ++at[leader + 1];
  std::partial_sum(at.begin(), at.end(), at.begin());
  ends->assign(at.begin() + 1, at.end());
  followers->resize(nearest.size());
  for (std::size_t i = 0; i < nearest.size(); ++i)
    (*followers)[at[nearest[i]]++] = static_cast<NodeId>(i / fan);
}

NearestLeaders::NearestLeaders(const Kernels& kernels, std::vector<const std::byte*> leaders,
                               const PartitionOptions& options, std::uint32_t fan)
    : kernels_(&kernels), leaders_(std::move(leaders)), fan_(fan) {
  const std::uint32_t count = NeighborhoodsOf(leaders_.size(), options);
  std::vector<const std::byte*> middles;
  for (std::size_t i = 0; i < count; ++i) middles.push_back(leaders_[i * leaders_.size() / count]);
  if (count == 0) return;
  NearestLeaders find(kernels, middles, options, 1);
  std::vector<std::uint32_t> nearest(leaders_.size());
  for (std::size_t begin = 0; begin < leaders_.size(); begin += kRowsAtOnce)
    find.Find({leaders_.data() + begin, std::min(kRowsAtOnce, leaders_.size() - begin)},
              nearest.data() + begin);
  Gather(nearest, 1, count, &around_, &around_ends_);
  middles_ = std::move(middles);
}

std::size_t NearestLeaders::rows_at_once() const {
  return middles_.empty() ? kRowsAtOnce : 8 * kRowsAtOnce;
}

void NearestLeaders::Find(std::span<const std::byte* const> rows, std::uint32_t* nearest) {
  if (!middles_.empty()) return FindByNeighborhoods(rows, nearest);
  FindAmong(leaders_, rows, fan_, nearest);
}

void NearestLeaders::FindAmong(const std::vector<const std::byte*>& all,
                               std::span<const std::byte* const> rows, std::uint32_t fan,
                               std::uint32_t* nearest) {
  keys_.resize(rows.size() * all.size());
  kernels_->block(rows.data(), rows.size(), all.data(), all.size(), kernels_->dim, keys_.data(),
                  all.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    ChooseNearest({keys_.data() + i * all.size(), all.size()}, fan, nearest + i * fan);
}

void NearestLeaders::FindByNeighborhoods(std::span<const std::byte* const> rows,
                                         std::uint32_t* nearest) {
  probed_.resize(rows.size() * kProbes);
  FindAmong(middles_, rows, kProbes, probed_.data());
  std::vector<NodeId> lookers;
  std::vector<std::size_t> ends;
  Gather(probed_, kProbes, static_cast<std::uint32_t>(middles_.size()), &lookers, &ends);
  best_.assign(rows.size() * fan_, {~DistanceKey{0}, kNoNode});
  for (std::size_t m = 0, looker = 0, leader = 0; m < ends.size(); ++m) {
    const std::span of_rows(lookers.data() + looker, ends[m] - looker);
    const std::span of_leaders(around_.data() + leader, around_ends_[m] - leader);
    Compare(rows, of_rows, of_leaders);
    looker = ends[m];
    leader = around_ends_[m];
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (best_[(i + 1) * fan_ - 1].id == kNoNode)  // neighborhoods with very few leaders
      FindAmong(leaders_, rows.subspan(i, 1), fan_, nearest + i * fan_);
    else
      for (std::size_t j = i * fan_; j < (i + 1) * fan_; ++j) nearest[j] = best_[j].id;
  }
}

void NearestLeaders::Compare(std::span<const std::byte* const> rows,
                             std::span<const NodeId> of_rows, std::span<const NodeId> of_leaders) {
  lookers_.clear();
  for (const NodeId i : of_rows) lookers_.push_back(rows[i]);
  looked_at_.clear();
  for (const NodeId l : of_leaders) looked_at_.push_back(leaders_[l]);
  keys_.resize(of_rows.size() * of_leaders.size());
  kernels_->block(lookers_.data(), lookers_.size(), looked_at_.data(), looked_at_.size(),
                  kernels_->dim, keys_.data(), looked_at_.size());
  const DistanceKey* key = keys_.data();
  for (const NodeId i : of_rows) {
    Candidate* best = best_.data() + std::size_t{i} * fan_;
    for (const NodeId l : of_leaders) {
      const Candidate found{*key++, l};
      if (!(found < best[fan_ - 1])) continue;
      std::uint32_t at = fan_ - 1;
      for (; at > 0 && found < best[at - 1]; --at) best[at] = best[at - 1];
      best[at] = found;
    }
  }
}

absl::StatusOr<FirstSplit> FirstSplit::Make(const Kernels& kernels, std::size_t stride,
                                            std::size_t count,
                                            const std::function<const std::byte*(std::size_t)>& row,
                                            const PartitionOptions& options) {
  FirstSplit split;
  const std::vector<std::uint32_t> chosen =
      Sample(options.seed, count, FirstLeaders(count, options));
  split.fan_ = std::min(options.fan, static_cast<std::uint32_t>(chosen.size()));
  HMANN_ASSIGN_OR_RETURN(split.rows_, Buffer::Allocate(chosen.size() * stride));
  std::vector<NodeId> order(chosen.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    std::memcpy(split.rows_.data() + i * stride, row(chosen[i]), stride);
    order[i] = static_cast<NodeId>(i);
  }
  const auto copy = [&](NodeId i) { return split.rows_.data() + std::size_t{i} * stride; };
  OrderByHalves(kernels, copy, order);
  for (const NodeId i : order) split.leaders_.push_back(copy(i));
  return split;
}

std::vector<PartLeaders::Distance> PartLeaders::Distances(const Kernels& kernels,
                                                          const std::byte* row) const {
  std::vector<DistanceKey> keys(rows_.size());
  kernels.many(row, rows_.data(), rows_.size(), kernels.dim, keys.data());
  std::vector<Distance> distances;
  for (std::size_t p = 0; p < keys.size(); ++p)
    distances.push_back(
        {double{kernels.ToDistance(keys[p])} + added_[p], static_cast<std::uint16_t>(p)});
  return distances;
}

PartsOfVector PartLeaders::Find(const Kernels& kernels, const std::byte* row) const {
  std::vector<Distance> distances = Distances(kernels, row);
  const std::size_t most = std::min(kMostParts, distances.size());
  const auto end = distances.begin() + static_cast<std::ptrdiff_t>(most);
  std::partial_sort(distances.begin(), end, distances.end());
  PartsOfVector parts;
  parts.fill(kNoPart);
  for (std::size_t i = 0; i < most; ++i) {
    if (i > 0 && distances[i].distance > kGuest * distances[0].distance) break;
    parts[i] = distances[i].part;
  }
  return parts;
}

absl::StatusOr<PartLeaders> PartLeaders::Make(const Kernels& kernels, const StoredVectors& sample,
                                              std::size_t count, std::uint32_t parts) {
  PartLeaders leaders;
  leaders.means_.stride = sample.stride;
  HMANN_ASSIGN_OR_RETURN(leaders.means_.rows, Buffer::Allocate(parts * sample.stride));
  leaders.added_.assign(parts, 0);
  std::byte* const means = leaders.means_.rows.data();
  for (std::uint32_t p = 0; p < parts; ++p) {
    leaders.rows_.push_back(means + p * sample.stride);
    std::memcpy(means + p * sample.stride, sample.Row(p), sample.stride);
  }
  const double average = static_cast<double>(count) / parts;
  std::vector<float> components(kernels.dim);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::vector<float>> sums(parts, std::vector<float>(kernels.dim));
    std::vector<double> members(parts);
    double mean_distance = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<Distance> distances = leaders.Distances(kernels, sample.Row(i));
      const std::uint16_t p = std::min_element(distances.begin(), distances.end())->part;
      mean_distance += (distances[p].distance - leaders.added_[p]) / static_cast<double>(count);
      ++members[p];
      ReadComponents(kernels.dtype, sample.Row(i), kernels.dim, components.data());
      for (std::uint32_t d = 0; d < kernels.dim; ++d) sums[p][d] += components[d];
    }
    for (std::uint32_t p = 0; p < parts; ++p) {
      leaders.added_[p] += kStep * mean_distance * std::clamp(members[p] / average - 1, -1.0, 2.0);
      if (members[p] == 0 || round >= kRounds - kStill) continue;
      for (float& sum : sums[p]) sum /= static_cast<float>(members[p]);
      // A mean that cannot be stored (under cosine: of opposite vectors) stays as it was.
      std::vector<std::byte> row(sample.stride);
      if (WriteMean(kernels, sums[p], row.data()).ok())
        std::memcpy(means + p * sample.stride, row.data(), kernels.row_bytes);
    }
  }
  return leaders;
}

}  // namespace hmann
