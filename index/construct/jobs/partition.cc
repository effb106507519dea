#include "index/construct/jobs/partition.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "index/base/random.h"
#include "index/construct/jobs/leaders.h"

namespace hmann {
namespace {

/// Splits a group into leaves.
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
    for (std::size_t begin = 0; begin < rows.size(); begin += find.rows_at_once())
      find.Find({rows.data() + begin, std::min(find.rows_at_once(), rows.size() - begin)},
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

void ForEachLeaf(std::span<const NodeId> members, const StoredVectors& vectors,
                 const Kernels& kernels, const PartitionOptions& options,
                 const std::function<void(std::span<const NodeId>)>& leaf) {
  Splitter(vectors, kernels, options, leaf).Split(members, options.fan_below);
}

}  // namespace hmann
