#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/join.h"
#include "index/construct/nearest_lists.h"
#include "index/construct/streamed_layer.h"

namespace hmann {
namespace {

/// Numbers of shards that are tried.
constexpr std::array<std::uint32_t, 16> kShards = {1,  2,  3,  4,  6,  8,   12,  16,
                                                   24, 32, 48, 64, 96, 128, 192, 256};

std::uint32_t ShardOf(std::uint32_t group, std::uint32_t shards, std::uint32_t groups) {
  return static_cast<std::uint32_t>(std::uint64_t{group} * shards / groups);
}

/// What the shards of one of kShards hold, at most.
struct Largest {
  std::uint64_t nodes = 0, memberships = 0;
};

/// Of each number of shards, the largest of them.
std::array<Largest, kShards.size()> CountShards(const std::uint32_t* near, NodeId count,
                                                std::uint32_t fan, std::uint32_t groups,
                                                ThreadPool& pool) {
  struct Counts {
    std::array<std::vector<Largest>, kShards.size()> of;
    std::array<std::vector<NodeId>, kShards.size()> last;  ///< node that a shard met last
  };
  std::vector<Counts> counts(static_cast<std::size_t>(pool.threads()));
  for (Counts& own : counts) {
    for (std::size_t s = 0; s < kShards.size(); ++s) {
      own.of[s].resize(kShards[s]);
      own.last[s].assign(kShards[s], kNoNode);
    }
  }
  pool.ParallelFor(count, 4096, [&](std::size_t begin, std::size_t end, int thread) {
    Counts& own = counts[static_cast<std::size_t>(thread)];
    for (std::size_t node = begin; node < end; ++node) {
      for (std::uint32_t j = 0; j < fan; ++j) {
        for (std::size_t s = 0; s < kShards.size(); ++s) {
          const std::uint32_t shard = ShardOf(near[node * fan + j], kShards[s], groups);
          ++own.of[s][shard].memberships;
          own.of[s][shard].nodes += own.last[s][shard] == node ? 0 : 1;
          own.last[s][shard] = static_cast<NodeId>(node);
        }
      }
    }
  });
  std::array<Largest, kShards.size()> largest;
  for (std::size_t s = 0; s < kShards.size(); ++s) {
    for (std::uint32_t shard = 0; shard < kShards[s]; ++shard) {
      Largest sum;
      for (const Counts& own : counts) {
        sum.nodes += own.of[s][shard].nodes;
        sum.memberships += own.of[s][shard].memberships;
      }
      largest[s].nodes = std::max(largest[s].nodes, sum.nodes);
      largest[s].memberships = std::max(largest[s].memberships, sum.memberships);
    }
  }
  return largest;
}

}  // namespace

absl::StatusOr<std::uint32_t> StreamedLayer::ChooseShards(const Buffer& near) {
  const auto need = [&](const Largest& shard) {
    const std::uint64_t lists = list_length() * sizeof(NearestLists::Entry);
    return shard.nodes * (source_.stride + lists + 2 * sizeof(NodeId)) +
           shard.memberships * sizeof(NodeId);
  };
  struct Choice {
    std::uint64_t bytes;
    std::uint32_t shards;
  } choice{};
  if (stages_.work().Has(stages_.Name("shards"))) {
    HMANN_ASSIGN_OR_RETURN(const std::string text, stages_.work().Read(stages_.Name("shards")));
    std::memcpy(&choice.shards, text.data(), sizeof(choice.shards));
    return choice.shards;
  }
  const auto largest = CountShards(reinterpret_cast<const std::uint32_t*>(near.data()), count(),
                                   fan_, groups_, stages_.job().pool);
  std::uint64_t least = ~std::uint64_t{0};
  for (std::size_t s = 0; s < kShards.size() && choice.shards == 0; ++s) {
    if (kShards[s] > groups_) break;
    choice = {need(largest[s]), kShards[s]};
    least = std::min(least, choice.bytes);
    if (choice.bytes > source_.room) choice.shards = 0;
  }
  if (choice.shards == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the vectors that must be compared with each other take ", FormatSize(least), " at least, ",
        FormatSize(source_.room), " are left of the build's memory: give more (--build-memory)"));
  }
  HMANN_RETURN_IF_ERROR(
      stages_.work().Write(stages_.Name("shards"),
                           {reinterpret_cast<const char*>(&choice.shards), sizeof(choice.shards)}));
  return choice.shards;
}

absl::Status StreamedLayer::JoinShards(const std::byte* rows) {
  if (stages_.Done("lists")) return absl::OkStatus();
  if (stages_.Done("shard")) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(const Buffer near, stages_.Map("near", count()));
  HMANN_ASSIGN_OR_RETURN(const std::uint32_t shards, ChooseShards(near));
  const std::uint64_t total = std::uint64_t{count()} * fan_;
  return stages_.Make({.stage = "shard",
                       .phase = "join",
                       .total = total,
                       .count = shards,
                       .size = [&](std::size_t) { return total / shards; },
                       .has =
                           [&](std::size_t shard) {
                             return stages_.work().Has(stages_.Name("shard", shard)) &&
                                    stages_.work().Has(stages_.Name("shard-nodes", shard));
                           },
                       .make =
                           [&](std::size_t shard) {
                             return JoinShard(near, rows, static_cast<std::uint32_t>(shard),
                                              shards);
                           },
                       .advances = true});
}

absl::Status StreamedLayer::JoinShard(const Buffer& near, const std::byte* rows,
                                      std::uint32_t shard, std::uint32_t shards) {
  const auto* leaders = reinterpret_cast<const std::uint32_t*>(near.data());
  const auto ours = [&](std::uint32_t group) { return ShardOf(group, shards, groups_) == shard; };
  NodeSubset loaded(count());
  stages_.job().pool.ParallelFor(count(), 4096, [&](std::size_t begin, std::size_t end, int) {
    for (std::size_t node = begin; node < end; ++node) {
      if (std::any_of(leaders + node * fan_, leaders + (node + 1) * fan_, ours))
        loaded.Add(static_cast<NodeId>(node));
    }
  });
  loaded.Number();
  const std::vector<NodeId> nodes = loaded.Nodes();
  // Members of the shard's groups, by their number among what is loaded.
  std::uint32_t first = 0, last = 0;
  while (first < groups_ && ShardOf(first, shards, groups_) < shard) ++first;
  for (last = first; last < groups_ && ours(last);) ++last;
  std::vector<std::size_t> at(last - first + 1);
  const auto for_each = [&](const auto& take) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (std::uint32_t j = 0; j < fan_; ++j) {
        const std::uint32_t group = leaders[std::size_t{nodes[i]} * fan_ + j];
        if (group >= first && group < last) take(group - first, static_cast<NodeId>(i));
      }
    }
  };
  for_each([&](std::uint32_t group, NodeId) { ++at[group + 1]; });
  std::partial_sum(at.begin(), at.end(), at.begin());
  std::vector<NodeId> members(at.back());
  std::vector<std::size_t> ends(at.begin() + 1, at.end());
  for_each([&](std::uint32_t group, NodeId node) { members[at[group]++] = node; });

  HMANN_ASSIGN_OR_RETURN(const StoredVectors vectors,
                         GatherRecords(rows, source_.stride, nodes, stages_.job().pool));
  HMANN_ASSIGN_OR_RETURN(NearestLists lists,
                         NearestLists::Make(static_cast<NodeId>(nodes.size()), list_length()));
  HMANN_RETURN_IF_ERROR(JoinLeaves(Partition::Of(partition_, std::move(members), std::move(ends)),
                                   vectors, source_.kernels, lists, stages_.job()));
  HMANN_ASSIGN_OR_RETURN(ArtefactWriter writer,
                         stages_.work().Create(stages_.Name("shard", shard)));
  std::vector<NodeId> list, found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    list.assign(list_length(), kNoNode);
    lists.First(static_cast<NodeId>(i), list_length(), &found);
    for (std::size_t j = 0; j < found.size(); ++j) list[j] = nodes[found[j]];
    HMANN_RETURN_IF_ERROR(writer.Append(std::span<const NodeId>(list)));
  }
  HMANN_RETURN_IF_ERROR(writer.Commit());
  HMANN_ASSIGN_OR_RETURN(writer, stages_.work().Create(stages_.Name("shard-nodes", shard)));
  HMANN_RETURN_IF_ERROR(writer.Append(std::span<const NodeId>(nodes)));
  return writer.Commit();
}

namespace {

/// The lists that the shards have of the nodes they hold.
struct ShardLists {
  std::vector<Buffer> nodes, lists;

  std::span<const NodeId> Nodes(std::size_t shard) const {
    return {reinterpret_cast<const NodeId*>(nodes[shard].data()),
            nodes[shard].size() / sizeof(NodeId)};
  }
};

/// A list of a shard.
struct ListOf {
  std::uint32_t shard;
  NodeId place;
};

/// Which lists there are of nodes [first, last), node by node.
struct ListsOfNodes {
  std::vector<std::uint32_t> ends;  ///< [node - first]
  std::vector<ListOf> lists;

  ListsOfNodes(const ShardLists& shards, NodeRange range)
      : ends(std::size_t{range.last - range.first} + 1) {
    const auto for_each = [&](const auto& take) {
      for (std::uint32_t s = 0; s < shards.nodes.size(); ++s) {
        const std::span<const NodeId> nodes = shards.Nodes(s);
        for (auto at = std::lower_bound(nodes.begin(), nodes.end(), range.first);
             at != nodes.end() && *at < range.last; ++at)
          take(*at - range.first, ListOf{s, static_cast<NodeId>(at - nodes.begin())});
      }
    };
    for_each([&](NodeId node, ListOf) { ++ends[node + 1]; });
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    lists.resize(ends.back());
    for_each([&](NodeId node, ListOf list) { lists[ends[node]++] = list; });
  }
  std::span<const ListOf> Of(NodeId place) const {
    const std::uint32_t begin = place == 0 ? 0 : ends[place - 1];
    return {lists.data() + begin, ends[place] - begin};
  }
};

/// Merges the lists of a node: its nearest of all.
class ListMerger {
 public:
  ListMerger(const ShardLists& shards, std::uint32_t length, const Kernels& kernels)
      : shards_(shards), length_(length), kernels_(kernels) {}

  std::span<const NodeId> List(ListOf list) const {
    return {reinterpret_cast<const NodeId*>(shards_.lists[list.shard].data()) +
                std::size_t{list.place} * length_,
            length_};
  }
  /// `loaded`: all that is in the lists, and the node; `rows` of it.
  void Merge(NodeId node, std::span<const ListOf> lists, const NodeSubset& loaded,
             const StoredVectors& rows, NodeId* out) {
    ids_.clear();
    for (const ListOf& list : lists) {
      for (const NodeId id : List(list)) {
        if (id != kNoNode) ids_.push_back(id);
      }
    }
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    batch_.Reserve(ids_.size());
    batch_.size = 0;
    for (const NodeId id : ids_) batch_.Add(id, rows.Row(loaded.Local(id)));
    batch_.Score(kernels_, rows.Row(loaded.Local(node)));
    candidates_.clear();
    for (std::uint32_t i = 0; i < batch_.size; ++i)
      candidates_.push_back({batch_.keys[i], batch_.ids[i]});
    const std::size_t kept = std::min<std::size_t>(length_, candidates_.size());
    std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(kept),
                      candidates_.end());
    for (std::size_t i = 0; i < length_; ++i) out[i] = i < kept ? candidates_[i].id : kNoNode;
  }

 private:
  const ShardLists& shards_;
  std::uint32_t length_;
  const Kernels& kernels_;
  std::vector<NodeId> ids_;
  RowBatch batch_;
  std::vector<Candidate> candidates_;
};

}  // namespace

absl::Status StreamedLayer::MergeLists(const std::byte* rows) {
  if (stages_.Done("lists")) return absl::OkStatus();
  ShardLists shards;
  HMANN_ASSIGN_OR_RETURN(const std::uint32_t count_of_shards, ChooseShards(Buffer()));
  for (std::uint32_t s = 0; s < count_of_shards; ++s) {
    HMANN_ASSIGN_OR_RETURN(shards.nodes.emplace_back(),
                           stages_.work().Map({stages_.Name("shard-nodes", s)}));
    HMANN_ASSIGN_OR_RETURN(shards.lists.emplace_back(),
                           stages_.work().Map({stages_.Name("shard", s)}));
  }
  std::vector<ListMerger> mergers(static_cast<std::size_t>(stages_.job().pool.threads()),
                                  ListMerger(shards, list_length(), source_.kernels));
  NodeSubset loaded(count());
  HMANN_RETURN_IF_ERROR(
      stages_.ForRanges("lists", "lists", count(), [&](NodeRange range, ArtefactWriter& writer) {
        const ListsOfNodes all(shards, range);
        std::vector<NodeId> merged;
        const auto for_each = [&](NodeRange part, const auto& take) {
          stages_.job().pool.ParallelFor(
              part.last - part.first, 1024, [&](std::size_t begin, std::size_t end, int thread) {
                for (std::size_t i = begin; i < end; ++i) {
                  const auto node = static_cast<NodeId>(part.first + i);
                  take(node, all.Of(node - range.first), mergers[static_cast<std::size_t>(thread)]);
                }
              });
        };
        const auto collect = [&](NodeRange part) {
          for_each(part, [&](NodeId node, std::span<const ListOf> lists, ListMerger& merger) {
            if (lists.size() < 2) return;
            loaded.Add(node);
            for (const ListOf& list : lists) {
              for (const NodeId id : merger.List(list)) {
                if (id != kNoNode) loaded.Add(id);
              }
            }
          });
        };
        const auto make = [&](NodeRange part) {
          const absl::StatusOr<StoredVectors> vectors =
              GatherRecords(rows, source_.stride, loaded.Nodes(), stages_.job().pool);
          if (!vectors.ok()) return vectors.status();
          merged.assign(std::size_t{part.last - part.first} * list_length(), kNoNode);
          for_each(part, [&](NodeId node, std::span<const ListOf> lists, ListMerger& merger) {
            NodeId* out = merged.data() + std::size_t{node - part.first} * list_length();
            if (lists.size() == 1)
              std::copy_n(merger.List(lists[0]).data(), list_length(), out);
            else if (!lists.empty())
              merger.Merge(node, lists, loaded, *vectors, out);
          });
          return writer.Append(std::span<const NodeId>(merged));
        };
        return ForParts(range, source_.stride + sizeof(NodeId), list_length() * sizeof(NodeId),
                        loaded, collect, make);
      }));
  stages_.Retire("shard");
  stages_.Retire("near");
  return absl::OkStatus();
}

}  // namespace hmann
