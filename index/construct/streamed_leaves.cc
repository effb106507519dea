#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/leaders.h"
#include "index/construct/leaf_store.h"
#include "index/construct/streamed_layer.h"

namespace hmann {
namespace {

/// Who is in which group: members of groups [first, last), one behind the other.
struct GroupMembers {
  NodeRange groups{0, 0};
  std::vector<std::size_t> ends;  ///< [group - first]
  std::vector<NodeId> members;    ///< places in the nodes that are loaded

  /// `near`: the groups of each node, `fan` of them.
  GroupMembers(NodeRange of, const std::uint32_t* near, std::uint32_t fan,
               std::span<const NodeId> nodes)
      : groups(of) {
    const auto for_each = [&](const auto& take) {
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const std::uint32_t* own = near + std::size_t{nodes[i]} * fan;
        for (std::uint32_t j = 0; j < fan; ++j) {
          if (own[j] >= groups.first && own[j] < groups.last)
            take(own[j] - groups.first, static_cast<NodeId>(i));
        }
      }
    };
    std::vector<std::size_t> at(std::size_t{groups.size()} + 1);
    for_each([&](std::uint32_t group, NodeId) { ++at[group + 1]; });
    std::partial_sum(at.begin(), at.end(), at.begin());
    ends.assign(at.begin() + 1, at.end());
    members.resize(at.back());
    for_each([&](std::uint32_t group, NodeId place) { members[at[group]++] = place; });
  }
  std::span<const NodeId> Of(std::uint32_t group) const {
    const std::size_t begin = group == groups.first ? 0 : ends[group - groups.first - 1];
    return {members.data() + begin, ends[group - groups.first] - begin};
  }
};

}  // namespace

std::vector<NodeRange> LeafJobs(std::uint32_t groups) {
  constexpr std::uint32_t kJobs = 32;
  const std::uint32_t size = (groups + kJobs - 1) / kJobs;
  std::vector<NodeRange> jobs;
  for (std::uint32_t first = 0; first < groups; first += size)
    jobs.push_back({first, std::min(groups, first + size)});
  return jobs;
}

std::size_t CountLeafJobs(NodeId count) {
  return LeafJobs(FirstLeaders(count, PartitionFor(count, 0))).size();
}

absl::Status StreamedLayer::MakeLeaves() {
  HMANN_ASSIGN_OR_RETURN(const Buffer mapped, stages_.Map("near", count()));
  const auto* near = reinterpret_cast<const std::uint32_t*>(mapped.data());
  const std::vector<NodeRange> jobs = LeafJobs(groups_);
  const std::uint64_t memberships = std::uint64_t{count()} * fan_;
  PartLoader loader(vectors_, source_.room,
                    {.of_loaded = sizeof(NodeId), .few = 1, .at_first = groups_}, stages_.job());
  std::optional<GroupMembers> members;
  std::uint64_t loads = 0;
  const auto collect = [&](NodeRange groups, NodeSubset* nodes) {
    members.reset();
    if (nodes == nullptr) return std::uint64_t{0};
    std::atomic<std::uint64_t> found{0};
    stages_.job().pool.ParallelFor(count(), 4096, [&](std::size_t begin, std::size_t end, int) {
      std::uint64_t own = 0;
      for (std::size_t node = begin; node < end; ++node) {
        const auto in = std::count_if(
            near + node * fan_, near + (node + 1) * fan_,
            [&](std::uint32_t group) { return group - groups.first < groups.size(); });
        if (in > 0) nodes->Add(static_cast<NodeId>(node));
        own += static_cast<std::uint64_t>(in);
      }
      found += own;
    });
    return found * sizeof(NodeId);
  };
  const auto make = [&](std::size_t job) {
    absl::StatusOr<ArtefactWriter> writer = stages_.work().Create(stages_.Name("leaves", job));
    if (!writer.ok()) return writer.status();
    const auto split = [&](NodeRange groups) {
      const std::vector<NodeId> nodes = loader.nodes().Nodes();
      if (std::exchange(loads, loader.loads()) != loader.loads())
        members.emplace(loader.places(), near, fan_, nodes);
      return SplitGroups(
          groups, nodes, loader, [&](NodeId group) { return members->Of(group); }, *writer);
    };
    HMANN_RETURN_IF_ERROR(loader.For(jobs[job], jobs[stages_.run_end() - 1].last, collect, split));
    return writer->Commit();
  };
  return stages_.Make(
      {.stage = "leaves",
       .phase = "split",
       .total = memberships,
       .count = jobs.size(),
       .size = [&](std::size_t j) { return memberships * jobs[j].size() / groups_; },
       .has = [&](std::size_t j) { return stages_.work().Has(stages_.Name("leaves", j)); },
       .make = make});
}

absl::Status StreamedLayer::SplitGroups(
    NodeRange groups, std::span<const NodeId> nodes, const PartLoader& loader,
    const std::function<std::span<const NodeId>(NodeId)>& members, ArtefactWriter& writer) const {
  // Some at a time: what they leave is written in the order of groups.
  constexpr NodeId kAtOnce = 256;
  const NodeId range = stages_.Ranges(count())[0].size();
  for (NodeId first = groups.first; first < groups.last; first += kAtOnce) {
    std::vector<std::vector<std::byte>> made(std::min(kAtOnce, groups.last - first));
    stages_.job().pool.ParallelFor(made.size(), 1, [&](std::size_t begin, std::size_t end, int) {
      LeafEncoder encoder(range);
      std::vector<NodeId> leaf;
      for (std::size_t g = begin; g < end && !stages_.job().Cancelled(); ++g) {
        ForEachLeaf(members(static_cast<NodeId>(first + g)), loader.vectors(), source_.kernels,
                    partition_, [&](std::span<const NodeId> places) {
                      leaf.clear();
                      for (const NodeId place : places) leaf.push_back(nodes[place]);
                      encoder.Add(leaf, &made[g]);
                    });
      }
    });
    for (const std::vector<std::byte>& leaves : made) {
      const auto bytes = static_cast<GroupBytes>(leaves.size());
      HMANN_RETURN_IF_ERROR(writer.Append(&bytes, sizeof(bytes)));
      HMANN_RETURN_IF_ERROR(writer.Append(std::span<const std::byte>(leaves)));
    }
    HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
  }
  return absl::OkStatus();
}

}  // namespace hmann
