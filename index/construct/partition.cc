#include "index/construct/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "index/base/random.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::size_t kRowsAtOnce = 256;  ///< that a block kernel compares with leaders

/// Leaders of so many memberships: for groups of three quarters of a leaf, so that most
/// of those that are larger than others still fit.
std::uint32_t LeadersFor(std::size_t members, const PartitionOptions& options) {
  if (members <= options.leaf) return 1;
  const std::size_t wanted = 4 * members / (std::size_t{3} * options.leaf) + 1;
  return static_cast<std::uint32_t>(std::min<std::size_t>(wanted, options.leaders));
}

/// Leaders of the first split: fewer than there is room for where that makes it and the
/// second, whose leaders are fewer the more groups there are, cheapest together.
std::uint32_t FirstLeaders(std::size_t n, const PartitionOptions& options) {
  if (n <= options.leaf) return 1;
  const std::uint32_t most = LeadersFor(n * options.fan, options);
  const double below =
      4.0 * options.fan_below * options.fan * static_cast<double>(n) / (3.0 * options.leaf);
  const auto cheapest = static_cast<std::uint32_t>(std::sqrt(options.fan * below));
  return std::min(most, std::max(cheapest, options.fan + 1));
}

/// `count` distinct numbers below n, ascending (Floyd's sampling).
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

/// Finds the nearest of some leaders; keeps its scratch.
class NearestLeaders {
 public:
  NearestLeaders(const Kernels& kernels, std::vector<const std::byte*> leaders, std::uint32_t fan)
      : kernels_(&kernels),
        leaders_(std::move(leaders)),
        fan_(fan),
        keys_(kRowsAtOnce * leaders_.size()) {}

  /// nearest: fan leaders for each of n <= kRowsAtOnce rows, nearest first; of equally
  /// near ones the first.
  void Find(const std::byte* const* rows, std::size_t n, std::uint32_t* nearest) {
    const std::size_t count = leaders_.size();
    kernels_->block(rows, n, leaders_.data(), count, kernels_->dim, keys_.data(), count);
    for (std::size_t i = 0; i < n; ++i) Choose(keys_.data() + i * count, nearest + i * fan_);
  }

 private:
  void Choose(const DistanceKey* keys, std::uint32_t* nearest) const {
    std::uint32_t found = 0;
    for (std::uint32_t l = 0; l < leaders_.size(); ++l) {
      if (found == fan_ && keys[l] >= keys[nearest[fan_ - 1]]) continue;
      std::uint32_t at = found < fan_ ? found++ : fan_ - 1;
      for (; at > 0 && keys[nearest[at - 1]] > keys[l]; --at) nearest[at] = nearest[at - 1];
      nearest[at] = l;
    }
  }

  const Kernels* kernels_;
  std::vector<const std::byte*> leaders_;
  std::uint32_t fan_;
  std::vector<DistanceKey> keys_;
};

/// Who follows whom, the other way round: the followers of each leader, ascending, one
/// leader's after the other's, and where they end. nearest: [follower][fan].
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

/// The leaves of a group.
class Splitter {
 public:
  Splitter(const StoredVectors& vectors, const Kernels& kernels, const PartitionOptions& options,
           const std::function<void(std::span<const NodeId>)>& leaf)
      : vectors_(vectors), kernels_(kernels), options_(options), leaf_(leaf) {}

  void Split(std::span<const NodeId> members, std::uint32_t fan) const {
    if (members.size() <= options_.leaf) {
      if (members.size() > 1) leaf_(members);
      return;
    }
    const std::uint32_t count = std::max(LeadersFor(members.size() * fan, options_), fan + 1);
    std::vector<const std::byte*> leaders;
    for (const std::uint32_t place :
         Sample(Random(options_.seed, members.size()), members.size(), count))
      leaders.push_back(vectors_.Row(members[place]));
    NearestLeaders find(kernels_, std::move(leaders), fan);
    std::vector<std::uint32_t> nearest(members.size() * fan);
    const std::byte* rows[kRowsAtOnce];
    for (std::size_t begin = 0; begin < members.size(); begin += kRowsAtOnce) {
      const std::size_t n = std::min(kRowsAtOnce, members.size() - begin);
      for (std::size_t i = 0; i < n; ++i) rows[i] = vectors_.Row(members[begin + i]);
      find.Find(rows, n, nearest.data() + begin * fan);
    }
    std::vector<NodeId> places;
    std::vector<std::size_t> ends;
    Gather(nearest, fan, count, &places, &ends);
    nearest = {};
    std::vector<NodeId> group;
    for (std::uint32_t g = 0; g < count; ++g) {
      group.clear();
      for (std::size_t i = g == 0 ? 0 : ends[g - 1]; i < ends[g]; ++i)
        group.push_back(members[places[i]]);
      // Nine tenths and more is no split: equal distances, which leaders cannot tell
      // apart.
      group.size() * 10 < members.size() * 9 ? Split(group, 1) : Cut(group);
    }
  }

 private:
  void Cut(std::span<const NodeId> members) const {
    for (std::size_t begin = 0; begin < members.size(); begin += options_.leaf)
      Split(members.subspan(begin, std::min<std::size_t>(options_.leaf, members.size() - begin)),
            1);
  }

  const StoredVectors& vectors_;
  const Kernels& kernels_;
  const PartitionOptions& options_;
  const std::function<void(std::span<const NodeId>)>& leaf_;
};

}  // namespace

PartitionOptions PartitionFor(std::uint64_t n, std::uint64_t seed) {
  PartitionOptions options;
  const double grown = std::pow(static_cast<double>(n) / 1e6, 1.0 / 6);
  options.fan = static_cast<std::uint32_t>(std::clamp(options.fan * grown + 0.5, 4.0, 32.0));
  options.seed = seed;
  return options;
}

double DistancesInPartition(std::uint64_t n) {
  // Groups are of three quarters of a leaf where they fit at once, half of it on average.
  const PartitionOptions options = PartitionFor(n, 0);
  double members = static_cast<double>(n), memberships = 1, distances = 0;
  std::uint32_t fan = options.fan;
  for (int split = 0; members > options.leaf; ++split) {
    const auto leaders = split == 0 ? FirstLeaders(n, options)
                                    : LeadersFor(static_cast<std::size_t>(members * fan), options);
    distances += memberships * leaders;
    memberships *= fan;
    members *= fan / static_cast<double>(leaders);
    fan = split == 0 ? options.fan_below : 1;
  }
  return distances + memberships * members / 2;
}

absl::StatusOr<Partition> Partition::Make(const StoredVectors& vectors, const Kernels& kernels,
                                          std::span<const std::uint32_t> rows,
                                          const PartitionOptions& options, const Job& job) {
  const std::uint32_t groups = FirstLeaders(rows.size(), options);
  const std::uint32_t fan = std::min(options.fan, groups);
  std::vector<const std::byte*> leaders;
  for (const std::uint32_t i : Sample(options.seed, rows.size(), groups))
    leaders.push_back(vectors.Row(rows[i]));
  std::vector<std::uint32_t> nearest(rows.size() * fan);
  std::vector<NearestLeaders> find(static_cast<std::size_t>(job.pool.threads()),
                                   NearestLeaders(kernels, std::move(leaders), fan));
  job.pool.ParallelFor(rows.size(), kRowsAtOnce,
                       [&](std::size_t begin, std::size_t end, int thread) {
                         if (job.Cancelled()) return;
                         const std::byte* of_rows[kRowsAtOnce];
                         for (std::size_t i = begin; i < end; ++i)
                           of_rows[i - begin] = vectors.Row(rows[i]);
                         find[static_cast<std::size_t>(thread)].Find(of_rows, end - begin,
                                                                     nearest.data() + begin * fan);
                       });
  HMANN_RETURN_IF_ERROR(job.CheckCancelled());

  Partition made;
  made.options_ = options;
  std::vector<std::uint32_t> first(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) first[i] = nearest[i * fan];
  Gather(first, 1, groups, &made.order_, &made.ends_);
  std::vector<std::uint32_t> ordered(nearest.size());  // members are places in the order
  for (std::size_t place = 0; place < rows.size(); ++place)
    std::copy_n(&nearest[std::size_t{made.order_[place]} * fan], fan, &ordered[place * fan]);
  Gather(ordered, fan, groups, &made.members_, &made.ends_);
  return made;
}

void ForEachLeaf(std::span<const NodeId> members, const StoredVectors& vectors,
                 const Kernels& kernels, const PartitionOptions& options,
                 const std::function<void(std::span<const NodeId>)>& leaf) {
  Splitter(vectors, kernels, options, leaf).Split(members, options.fan_below);
}

}  // namespace hmann
