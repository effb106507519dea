#include "index/construct/jobs/partition.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "index/base/random.h"
#include "index/construct/jobs/leaders.h"

namespace hmann {
namespace {

using Nearest = std::vector<std::uint32_t>;  ///< leaders: [member][fan]

/// Splits a group into leaves.
class Splitter {
 public:
  /// Finds the nearest leaders, which are some of the members, of each member.
  using Find = std::function<Nearest(std::span<const NodeId> members,
                                     const std::vector<NodeId>& leaders, std::uint32_t fan)>;
  Splitter(const Find& find, const PartitionOptions& options,
           const std::function<void(std::span<const NodeId>)>& leaf)
      : find_(find), options_(options), leaf_(leaf) {}

  void Split(std::span<const NodeId> members, std::uint32_t fan) const {
    if (members.size() <= options_.leaf) {
      if (members.size() > 1) leaf_(members);
      return;
    }
    const std::uint32_t count = std::max(LeadersFor(members.size() * fan, options_), fan + 1);
    std::vector<NodeId> leaders;
    for (const std::uint32_t place :
         Sample(Random(options_.seed, members.size()), members.size(), count))
      leaders.push_back(members[place]);
    Nearest nearest = find_(members, leaders, fan);
    if (nearest.empty()) return;
    std::vector<NodeId> places;
    std::vector<std::size_t> ends;
    Gather(nearest, fan, count, &places, &ends);
    nearest = {};
    std::vector<NodeId> group;
    for (std::uint32_t g = 0; g < count; ++g) {
      group.clear();
      for (std::size_t i = g == 0 ? 0 : ends[g - 1]; i < ends[g]; ++i)
        group.push_back(members[places[i]]);
      // Nine tenths or more in one group is no split: leaders cannot separate equal
      // distances.
      group.size() * 10 < members.size() * 9 ? Split(group, 1) : Cut(group);
    }
  }

 private:
  void Cut(std::span<const NodeId> members) const {
    for (std::size_t begin = 0; begin < members.size(); begin += options_.leaf)
      Split(members.subspan(begin, std::min<std::size_t>(options_.leaf, members.size() - begin)),
            1);
  }

  const Find& find_;
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

void ForEachLeaf(std::span<const NodeId> members, const StoredVectors& vectors,
                 const Kernels& kernels, const PartitionOptions& options,
                 const std::function<void(std::span<const NodeId>)>& leaf) {
  const Splitter::Find nearest = [&](std::span<const NodeId> of, const std::vector<NodeId>& leaders,
                                     std::uint32_t fan) {
    std::vector<const std::byte*> rows, leader_rows;
    for (const NodeId leader : leaders) leader_rows.push_back(vectors.Row(leader));
    NearestLeaders find(kernels, std::move(leader_rows), options, fan);
    for (const NodeId member : of) rows.push_back(vectors.Row(member));
    Nearest found(of.size() * fan);
    for (std::size_t begin = 0; begin < rows.size(); begin += find.rows_at_once())
      find.Find({rows.data() + begin, std::min(find.rows_at_once(), rows.size() - begin)},
                found.data() + begin * fan);
    return found;
  };
  Splitter(nearest, options, leaf).Split(members, options.fan_below);
}

absl::Status ForEachLeaf(std::span<const NodeId> nodes, const NodeVectors& vectors,
                         const Kernels& kernels, const PartitionOptions& options, ThreadPool& pool,
                         const std::function<void(std::span<const NodeId>)>& leaf) {
  absl::Status read;
  const auto copies = [&](std::span<const NodeId> of, StoredVectors& to) {
    std::vector<const std::byte*> rows;
    absl::StatusOr<StoredVectors> copied = vectors.Gather(of, pool);
    if (!copied.ok()) read = copied.status();
    if (copied.ok()) to = *std::move(copied);
    for (std::size_t i = 0; read.ok() && i < of.size(); ++i) rows.push_back(to.Row(i));
    return rows;
  };
  const Splitter::Find nearest = [&](std::span<const NodeId> of, const std::vector<NodeId>& leaders,
                                     std::uint32_t fan) {
    StoredVectors of_leaders, of_members;
    const std::vector<const std::byte*> leader_rows = copies(leaders, of_leaders);
    std::vector<NearestLeaders> find(static_cast<std::size_t>(pool.threads()),
                                     NearestLeaders(kernels, leader_rows, options, fan));
    Nearest found(of.size() * fan);
    const std::size_t step = find[0].rows_at_once(), at_once = step * find.size();
    for (std::size_t first = 0; first < of.size() && read.ok(); first += at_once) {
      const auto rows = copies(of.subspan(first, std::min(at_once, of.size() - first)), of_members);
      pool.ParallelFor(rows.size(), step, [&](std::size_t begin, std::size_t end, int thread) {
        find[static_cast<std::size_t>(thread)].Find({rows.data() + begin, end - begin},
                                                    found.data() + (first + begin) * fan);
      });
    }
    return read.ok() ? found : Nearest();
  };
  Splitter(nearest, options, leaf).Split(nodes, options.fan_below);
  return read;
}

}  // namespace hmann
