#include "index/construct/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/graph/select.h"

namespace hmann {
namespace {

constexpr std::size_t kRowsAtOnce = 256;  ///< that a block kernel compares with leaders
constexpr std::uint32_t kProbes = 8;      ///< neighbourhoods of leaders that a vector looks into

/// Leaders of so many memberships: for groups of three quarters of a leaf, so that most
/// of those that are larger than others still fit.
std::uint32_t LeadersFor(std::size_t members, const PartitionOptions& options) {
  if (members <= options.leaf) return 1;
  const std::size_t wanted = 4 * members / (std::size_t{3} * options.leaf) + 1;
  return static_cast<std::uint32_t>(std::min<std::size_t>(wanted, options.leaders));
}

/// Leaders of the first split: as many as make it and the second, whose leaders are fewer
/// the more groups there are, cheapest together. Beyond options.leaders they are looked
/// for by neighbourhoods, and are as many as give the groups that a million vectors have.
std::uint32_t FirstLeaders(std::size_t n, const PartitionOptions& options) {
  if (n <= options.leaf) return 1;
  const double followers = static_cast<double>(n) * options.fan;
  const double below = 4.0 * options.fan_below * followers / (3.0 * options.leaf);
  const auto cheapest = static_cast<std::uint32_t>(std::sqrt(options.fan * below));
  if (cheapest > options.leaders)
    return std::max(options.leaders, static_cast<std::uint32_t>(followers / options.group));
  return std::min(LeadersFor(n * options.fan, options), std::max(cheapest, options.fan + 1));
}

/// Neighbourhoods of so many leaders: looking at all of them and into kProbes takes
/// fewest distances. None: every leader is looked at.
std::uint32_t NeighbourhoodsOf(std::size_t leaders, const PartitionOptions& options) {
  if (leaders <= options.leaders) return 0;
  return static_cast<std::uint32_t>(std::sqrt(kProbes * static_cast<double>(leaders)));
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

/// The `fan` smallest of some keys, in order; of equal ones the first.
void ChooseNearest(std::span<const DistanceKey> keys, std::uint32_t fan, std::uint32_t* nearest) {
  std::uint32_t found = 0;
  for (std::uint32_t l = 0; l < keys.size(); ++l) {
    if (found == fan && keys[l] >= keys[nearest[fan - 1]]) continue;
    std::uint32_t at = found < fan ? found++ : fan - 1;
    for (; at > 0 && keys[nearest[at - 1]] > keys[l]; --at) nearest[at] = nearest[at - 1];
    nearest[at] = l;
  }
}

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

/// Finds the nearest of some leaders; keeps its scratch. Of very many, those in the
/// nearest neighbourhoods of leaders, which are the nearest but for a few.
class NearestLeaders {
 public:
  NearestLeaders(const Kernels& kernels, std::vector<const std::byte*> leaders,
                 const PartitionOptions& options, std::uint32_t fan)
      : kernels_(&kernels), leaders_(std::move(leaders)), fan_(fan) {
    const std::uint32_t count = NeighbourhoodsOf(leaders_.size(), options);
    std::vector<const std::byte*> middles;
    for (std::size_t i = 0; i < count; ++i)
      middles.push_back(leaders_[i * leaders_.size() / count]);
    if (count == 0) return;
    NearestLeaders find(kernels, middles, options, 1);
    std::vector<std::uint32_t> nearest(leaders_.size());
    for (std::size_t begin = 0; begin < leaders_.size(); begin += kRowsAtOnce)
      find.Find({leaders_.data() + begin, std::min(kRowsAtOnce, leaders_.size() - begin)},
                nearest.data() + begin);
    Gather(nearest, 1, count, &around_, &around_ends_);
    middles_ = std::move(middles);
  }

  /// Rows that are best asked for at once.
  std::size_t rows_at_once() const { return middles_.empty() ? kRowsAtOnce : 8 * kRowsAtOnce; }

  /// nearest: fan leaders for each of at most rows_at_once() rows, nearest first; of
  /// equally near ones the first.
  void Find(std::span<const std::byte* const> rows, std::uint32_t* nearest) {
    if (!middles_.empty()) return FindByNeighbourhoods(rows, nearest);
    FindAmong(leaders_, rows, fan_, nearest);
  }

 private:
  void FindAmong(const std::vector<const std::byte*>& all, std::span<const std::byte* const> rows,
                 std::uint32_t fan, std::uint32_t* nearest) {
    keys_.resize(rows.size() * all.size());
    kernels_->block(rows.data(), rows.size(), all.data(), all.size(), kernels_->dim, keys_.data(),
                    all.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      ChooseNearest({keys_.data() + i * all.size(), all.size()}, fan, nearest + i * fan);
  }

  /// Neighbourhood by neighbourhood: its leaders with all rows that look into it.
  void FindByNeighbourhoods(std::span<const std::byte* const> rows, std::uint32_t* nearest) {
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
      if (best_[(i + 1) * fan_ - 1].id == kNoNode)  // neighbourhoods of very few
        FindAmong(leaders_, rows.subspan(i, 1), fan_, nearest + i * fan_);
      else
        for (std::size_t j = i * fan_; j < (i + 1) * fan_; ++j) nearest[j] = best_[j].id;
    }
  }

  void Compare(std::span<const std::byte* const> rows, std::span<const NodeId> of_rows,
               std::span<const NodeId> of_leaders) {
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

  const Kernels* kernels_;
  std::vector<const std::byte*> leaders_;
  std::uint32_t fan_;
  std::vector<const std::byte*> middles_;  ///< of the neighbourhoods; empty: none
  std::vector<NodeId> around_;             ///< leaders, one neighbourhood's after the other's,
  std::vector<std::size_t> around_ends_;   ///< and where they end
  std::vector<DistanceKey> keys_;
  std::vector<std::uint32_t> probed_;
  std::vector<Candidate> best_;  ///< [row][fan]
  std::vector<const std::byte*> lookers_, looked_at_;
};

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
    NearestLeaders find(kernels_, std::move(leaders), options_, fan);
    std::vector<std::uint32_t> nearest(members.size() * fan);
    std::vector<const std::byte*> rows;
    for (const NodeId member : members) rows.push_back(vectors_.Row(member));
    for (std::size_t begin = 0; begin < rows.size(); begin += kRowsAtOnce)
      find.Find({rows.data() + begin, std::min(kRowsAtOnce, rows.size() - begin)},
                nearest.data() + begin * fan);
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
    const std::uint32_t neighbourhoods = NeighbourhoodsOf(leaders, options);
    distances += memberships * (neighbourhoods == 0 ? leaders : 2.0 * neighbourhoods);
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
                                   NearestLeaders(kernels, std::move(leaders), options, fan));
  job.pool.ParallelFor(
      rows.size(), find[0].rows_at_once(), [&](std::size_t begin, std::size_t end, int thread) {
        if (job.Cancelled()) return;
        std::vector<const std::byte*> of_rows;
        for (std::size_t i = begin; i < end; ++i) of_rows.push_back(vectors.Row(rows[i]));
        find[static_cast<std::size_t>(thread)].Find(of_rows, nearest.data() + begin * fan);
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
