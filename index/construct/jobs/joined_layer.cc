#include "index/construct/jobs/joined_layer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/jobs/join.h"
#include "index/construct/jobs/leaders.h"
#include "index/construct/jobs/leaf_store.h"
#include "index/construct/jobs/nearest_links.h"
#include "index/construct/jobs/nearest_lists.h"
#include "index/construct/jobs/parted_layer.h"

namespace hmann {
namespace {

/// In place of a group that a vector does not follow.
constexpr std::uint32_t kNoGroup = ~0u;

/// The members of groups [first, last), one group behind the other.
struct GroupMembers {
  NodeRange groups{0, 0};
  std::vector<std::size_t> ends;  ///< [group - first]
  std::vector<NodeId> members;    ///< places in the loaded nodes

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

/// Writes the lists of some nodes. The entries that other nodes read go to `lists`, the
/// remaining ones to `rest`.
absl::Status WriteLists(const NearestLists& nearest, NodeRange nodes, NodeId n, ThreadPool& pool,
                        ArtifactWriter& lists, ArtifactWriter& rest) {
  const std::uint32_t length = nearest.length(), first = NodeLinker::AnsweredOf(length);
  const LinkPacking of_first = StoredLists::FirstPacking(length, n),
                    of_others = StoredLists::RestPacking(length, n);
  HMANN_RETURN_IF_ERROR(lists.Expect(std::uint64_t{nodes.size()} * of_first.list_bytes));
  HMANN_RETURN_IF_ERROR(rest.Expect(std::uint64_t{nodes.size()} * of_others.list_bytes));
  return ForParts(nodes, [&](NodeRange part) {
    std::vector<NodeId> of_lists(std::size_t{part.size()} * first, kNoNode),
        of_rest(std::size_t{part.size()} * (length - first), kNoNode);
    pool.ParallelFor(part.size(), 1024, [&](std::size_t begin, std::size_t end, int) {
      std::vector<NodeId> found;
      for (std::size_t i = begin; i < end; ++i) {
        nearest.First(static_cast<NodeId>(part.first + i), length, &found);
        for (std::size_t f = 0; f < found.size(); ++f)
          (f < first ? of_lists[i * first + f] : of_rest[i * (length - first) + f - first]) =
              found[f];
      }
    });
    HMANN_RETURN_IF_ERROR(
        lists.Append(std::span<const std::byte>(PackAll(of_first, of_lists, pool))));
    return rest.Append(std::span<const std::byte>(PackAll(of_others, of_rest, pool)));
  });
}

absl::Status AppendGroup(std::span<const std::byte> leaves, ArtifactWriter& writer) {
  const GroupBytes bytes = leaves.size();
  HMANN_RETURN_IF_ERROR(writer.Append(&bytes, sizeof(bytes)));
  return writer.Append(leaves);
}

}  // namespace

JoinedLayer::JoinedLayer(JoinedSource source, const Stages& stages)
    : source_(std::move(source)), stages_(stages) {
  groups_ = FirstLeaders(count(), source_.partition);
  fan_ = std::min(source_.partition.fan, groups_);
  CheckWhatIsThere();
}

bool JoinedLayer::IsParted() const { return PartedLayer::PartsOf(count(), source_.partition) > 1; }

bool JoinedLayer::HasAllLeaves() const {
  for (std::size_t j = 0; j < LeafJobs(groups_).size(); ++j) {
    if (!stages_.work().Has(stages_.Name("leaves", j))) return false;
  }
  return true;
}

bool JoinedLayer::Has(const char* artifact, const LayerStage* reader) const {
  const std::string_view name = artifact;
  if (name == "leaves") return HasAllLeaves();
  if (name == "part") {
    const std::uint32_t parts = PartedLayer::PartsOf(count(), source_.partition);
    for (std::uint32_t p = 0; p < parts; ++p)
      if (!stages_.work().Has(stages_.Name("part", p))) return false;
    return true;
  }
  if (name == "hubs") {
    // The links can be made again if all their sources are there.
    return stages_.HasAll("back", count()) || (stages_.work().Has(stages_.Name("hubs-nodes")) &&
                                               stages_.work().Has(stages_.Name("hubs-links")));
  }
  const bool by_range = reader != nullptr && reader->by_range && reader->reads[1] == name;
  return stages_.HasAll(artifact, count(), by_range ? reader->name : "");
}

void JoinedLayer::CheckWhatIsThere() {
  // The order of nodes is always read.
  const char* const ordered = IsParted() ? "part" : "lead";
  const std::span<const LayerStage> all = StagesOf(IsParted());
  bool whole =
      !stages_.LostMarker() && (!stages_.Done(ordered) ||
                                stages_.work().Has(stages_.Name("order")) || Has(ordered, nullptr));
  for (const LayerStage& stage : all) {
    for (const char* made : stage.makes) {
      if (made == nullptr || !stages_.Done(stage.name)) continue;
      const auto reader = std::find_if(all.begin(), all.end(), [&](const LayerStage& other) {
        return std::any_of(other.reads.begin(), other.reads.end(), [&](const char* read) {
          return read != nullptr && std::string_view(read) == made;
        });
      });
      const bool is_read = reader != all.end();
      if (is_read && stages_.Done(reader->name)) continue;
      whole = whole && Has(made, is_read ? &*reader : nullptr);
    }
  }
  if (!whole) stages_.Forget();
}

absl::Status JoinedLayer::MakeLead() {
  StoredVectors copies;
  copies.stride = source_.stride;
  HMANN_ASSIGN_OR_RETURN(copies.rows, Buffer::Allocate(source_.stride));
  HMANN_ASSIGN_OR_RETURN(const FirstSplit split, FirstSplit::Make(
                                                     source_.kernels, source_.stride, count(),
                                                     [&](std::size_t i) {
                                                       source_.copy(source_.unique[i],
                                                                    copies.rows.data());
                                                       return copies.rows.data();
                                                     },
                                                     source_.partition));
  std::vector<NearestLeaders> find(static_cast<std::size_t>(stages_.job().pool.threads()),
                                   split.Finder(source_.kernels, source_.partition));
  const std::size_t at_once = find[0].rows_at_once();
  HMANN_ASSIGN_OR_RETURN(copies.rows, Buffer::Allocate(find.size() * at_once * source_.stride));
  const auto lead = [&](NodeRange part, std::vector<std::uint32_t>& nearest) {
    stages_.job().pool.ParallelFor(
        part.size(), at_once, [&](std::size_t begin, std::size_t end, int thread) {
          if (stages_.job().Cancelled()) return;
          std::vector<const std::byte*> rows;
          for (std::size_t i = begin; i < end; ++i) {
            std::byte* place =
                copies.rows.data() +
                (static_cast<std::size_t>(thread) * at_once + (i - begin)) * source_.stride;
            source_.copy(source_.unique[part.first + i], place);
            rows.push_back(place);
          }
          std::uint32_t* const found = nearest.data() + begin * fan_;
          find[static_cast<std::size_t>(thread)].Find(rows, found);
          for (std::size_t i = begin; source_.effort && i < end; ++i) {
            const std::uint32_t wanted = source_.effort(part.first + static_cast<NodeId>(i)).fan;
            std::fill(found + (i - begin) * fan_ + std::min(wanted, fan_),
                      found + (i - begin + 1) * fan_, kNoGroup);
          }
          stages_.job().progress.Advance(end - begin);
        });
  };
  return stages_.ForRanges("lead", "lead", count(), [&](NodeRange range, ArtifactWriter& writer) {
    HMANN_RETURN_IF_ERROR(
        writer.Expect(std::uint64_t{range.size()} * fan_ * sizeof(std::uint32_t)));
    return ForParts(range, [&](NodeRange part) {
      std::vector<std::uint32_t> nearest(std::size_t{part.size()} * fan_);
      lead(part, nearest);
      HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
      return writer.Append(std::span<const std::uint32_t>(nearest));
    });
  });
}

absl::StatusOr<std::vector<std::uint32_t>> JoinedLayer::OrderOfGroups() {
  if (!stages_.Done("lead")) HMANN_RETURN_IF_ERROR(MakeLead());
  HMANN_ASSIGN_OR_RETURN(const Buffer lead, stages_.Map("lead", count()));
  const auto* nearest = reinterpret_cast<const std::uint32_t*>(lead.data());
  std::vector<std::uint32_t> first(count()), order;
  for (NodeId i = 0; i < count(); ++i) first[i] = nearest[std::size_t{i} * fan_];
  std::vector<std::size_t> ends;
  Gather(first, 1, groups_, &order, &ends);
  return order;
}

absl::StatusOr<std::vector<std::uint32_t>> JoinedLayer::Order() {
  const bool made = stages_.Done(IsParted() ? "part" : "lead");
  if (!made || !stages_.work().Has(stages_.Name("order"))) {
    HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> order,
                           IsParted() ? PartedLayer(source_, stages_).Order() : OrderOfGroups());
    HMANN_ASSIGN_OR_RETURN(ArtifactWriter writer, stages_.work().Create(stages_.Name("order")));
    HMANN_RETURN_IF_ERROR(writer.Append(std::span<const std::uint32_t>(order)));
    HMANN_RETURN_IF_ERROR(writer.Commit());
    return order;
  }
  HMANN_ASSIGN_OR_RETURN(const Buffer mapped, stages_.work().Map({stages_.Name("order")}));
  const auto* order = reinterpret_cast<const std::uint32_t*>(mapped.data());
  return std::vector<std::uint32_t>(order, order + mapped.size() / sizeof(std::uint32_t));
}

absl::Status JoinedLayer::MakeNear() {
  HMANN_ASSIGN_OR_RETURN(const Buffer lead, stages_.Map("lead", count()));
  const std::size_t bytes = fan_ * sizeof(std::uint32_t);
  return stages_.ForRanges(
      "leaders by node", "near", count(), [&](NodeRange range, ArtifactWriter& writer) {
        HMANN_RETURN_IF_ERROR(writer.Expect(range.size() * bytes));
        return ForParts(range, [&](NodeRange part) {
          std::vector<std::pair<std::uint32_t, NodeId>> moves;
          for (NodeId node = part.first; node < part.last; ++node)
            moves.emplace_back(order_[node], node - part.first);
          std::sort(moves.begin(), moves.end());
          std::vector<std::uint32_t> near(moves.size() * fan_);
          for (const auto& [from, to] : moves)
            std::memcpy(near.data() + std::size_t{to} * fan_, lead.data() + from * bytes, bytes);
          stages_.job().progress.Advance(part.size());
          return writer.Append(std::span<const std::uint32_t>(near));
        });
      });
}

absl::Status JoinedLayer::Make(std::string_view last, std::span<const std::uint32_t> row_of,
                               std::span<const std::uint32_t> order) {
  order_ = order;
  vectors_ = {.stride = source_.stride,
              .count = static_cast<NodeId>(row_of.size()),
              .row_of = row_of,
              .copy = source_.copy};
  if (!stages_.work().on_disk()) {
    std::vector<NodeId> nodes(count());
    std::iota(nodes.begin(), nodes.end(), NodeId{0});
    HMANN_ASSIGN_OR_RETURN(rows_, vectors_.Gather(nodes, stages_.job().pool));
    vectors_ = NodeVectors::InMemory(rows_, count());
  }
  if (IsParted()) {
    if (!stages_.Done("back"))
      HMANN_RETURN_IF_ERROR(PartedLayer(source_, stages_).Merge(order.first(count())));
    for (const char* read : {"shelf", "part"}) stages_.Retire(read);
    return absl::OkStatus();
  }
  constexpr std::size_t kMade = std::size(kLayerStages) - kStagesOfL0Alone;
  constexpr absl::Status (JoinedLayer::*kMake[kMade])() = {
      &JoinedLayer::MakeLead, &JoinedLayer::MakeNear,    &JoinedLayer::MakeLeaves,
      &JoinedLayer::JoinAll,  &JoinedLayer::ChooseLinks, &JoinedLayer::LinkBackRanges};
  for (std::size_t s = 0; s < kMade; ++s) {
    const LayerStage& stage = kLayerStages[s];
    // Through a variable: otherwise g++ 12 reports an index beyond kMake when it checks
    // bounds.
    const auto make = kMake[s];
    if (!stages_.Done(stage.name)) HMANN_RETURN_IF_ERROR((this->*make)());
    for (const char* read : stage.reads) {
      if (read != nullptr) stages_.Retire(read);
    }
    if (stage.name == last) break;
  }
  return absl::OkStatus();
}

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

absl::Status JoinedLayer::MakeLeaves() {
  HMANN_ASSIGN_OR_RETURN(const Buffer mapped, stages_.Map("near", count()));
  const auto* near = reinterpret_cast<const std::uint32_t*>(mapped.data());
  const std::vector<NodeRange> jobs = LeafJobs(groups_);
  const std::uint64_t memberships = std::uint64_t{count()} * fan_;
  PartLoader loader(
      vectors_, source_.room,
      {.of_loaded = sizeof(NodeId), .few = 1, .at_first = groups_, .only_what_fits = true},
      stages_.job());
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
    absl::StatusOr<ArtifactWriter> writer = stages_.work().Create(stages_.Name("leaves", job));
    if (!writer.ok()) return writer.status();
    const auto split = [&](NodeRange groups) {
      const std::vector<NodeId>& nodes = loader.list();
      if (!loader.fits()) return SplitLarge(nodes, *writer);
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

absl::Status JoinedLayer::SplitGroups(NodeRange groups, std::span<const NodeId> nodes,
                                      const PartLoader& loader,
                                      const std::function<std::span<const NodeId>(NodeId)>& members,
                                      ArtifactWriter& writer) const {
  // Takes some at a time: their output is written in the order of groups.
  constexpr NodeId kAtOnce = 256;
  const NodeId range = stages_.Ranges(count())[0].size();
  for (NodeId first = groups.first; first < groups.last; first += kAtOnce) {
    std::vector<std::vector<std::byte>> made(std::min(kAtOnce, groups.last - first));
    stages_.job().pool.ParallelFor(made.size(), 1, [&](std::size_t begin, std::size_t end, int) {
      LeafEncoder encoder(range);
      std::vector<NodeId> leaf;
      for (std::size_t g = begin; g < end && !stages_.job().Cancelled(); ++g) {
        ForEachLeaf(members(static_cast<NodeId>(first + g)), loader.vectors(), source_.kernels,
                    source_.partition, [&](std::span<const NodeId> places) {
                      leaf.clear();
                      for (const NodeId place : places) leaf.push_back(nodes[place]);
                      encoder.Add(leaf, &made[g]);
                    });
      }
    });
    for (const std::vector<std::byte>& leaves : made)
      HMANN_RETURN_IF_ERROR(AppendGroup(leaves, writer));
    HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
  }
  return absl::OkStatus();
}

absl::Status JoinedLayer::SplitLarge(std::span<const NodeId> nodes, ArtifactWriter& writer) const {
  LeafEncoder encoder(stages_.Ranges(count())[0].size());
  std::vector<std::byte> leaves;
  HMANN_RETURN_IF_ERROR(
      ForEachLeaf(nodes, vectors_, source_.kernels, source_.partition, stages_.job().pool,
                  [&](std::span<const NodeId> leaf) { encoder.Add(leaf, &leaves); }));
  return AppendGroup(leaves, writer);
}

absl::Status JoinedLayer::JoinAll() {
  const std::uint64_t of_list = list_length() * sizeof(NearestLists::Entry);
  // Half of the room is for lists, of as many nodes as fit. The rest is for vectors: all
  // of them, loaded once, or those of some groups at a time, loaded again for other
  // lists.
  constexpr std::uint64_t kFew = 4096;
  // Room for copies of those that are being written.
  const std::uint64_t written = kNodesOfPart * of_list;
  const std::uint64_t half = source_.room / 2;
  const std::uint64_t size = std::max((half - std::min(half, written)) / of_list, kFew);
  const std::uint64_t room =
      source_.room -
      std::min(source_.room, std::min<std::uint64_t>(size, count()) * of_list + written);
  const bool whole = count() * PartLoader::BytesOf(vectors_) <= room;
  const std::uint64_t few = std::max(room / 4 / PartLoader::BytesOf(vectors_), kFew);
  HMANN_ASSIGN_OR_RETURN(const StoredLeaves leaves,
                         StoredLeaves::Map(stages_, LeafJobs(groups_).size(), count(), few));
  NodeRange loaded{0, 0};  // nodes that the loader was filled for
  PartLoader loader(vectors_, room, {.few = 1, .at_first = leaves.pieces()}, stages_.job());
  std::optional<NearestLists> nearest;
  const auto join = [&](NodeId first, NodeId run) -> absl::Status {
    const auto last = static_cast<NodeId>(std::min<std::uint64_t>(run, first + size));
    nearest.reset();
    HMANN_ASSIGN_OR_RETURN(nearest, NearestLists::Make(last - first, list_length(), first));
    if (!whole || first < loaded.first || last > loaded.last) {
      loader.Forget();
      loaded = {first, whole ? run : last};
    }
    return JoinPart(leaves, loaded, loader, *nearest);
  };
  return stages_.ForRanges(
      {.phase = "join", .stage = "lists", .n = count(), .beside = "rest"},
      [&](NodeRange range, ArtifactWriter& lists, ArtifactWriter& rest) {
        for (NodeRange part = range; part.first < range.last; part.first = part.last) {
          if (!nearest.has_value() || !nearest->Holds(part.first))
            HMANN_RETURN_IF_ERROR(join(part.first, stages_.RunEnd(count())));
          part.last = std::min(range.last, nearest->nodes().last);
          HMANN_RETURN_IF_ERROR(
              WriteLists(*nearest, part, count(), stages_.job().pool, lists, rest));
        }
        return absl::OkStatus();
      });
}

absl::Status JoinedLayer::JoinPart(const StoredLeaves& leaves, NodeRange wanted, PartLoader& loader,
                                   NearestLists& nearest) const {
  ThreadPool& pool = stages_.job().pool;
  absl::Status read;  // error of what `collect` has read
  const auto collect = [&](NodeRange pieces, NodeSubset* nodes) {
    if (nodes == nullptr) return std::uint64_t{0};
    read = leaves.ForEach(pieces, wanted, pool, [&](std::span<const NodeId> members, int) {
      for (const NodeId member : members) nodes->Add(member);
    });
    return std::uint64_t{0};
  };
  const auto row = [&](NodeId node) { return loader.Row(node); };
  std::vector<LeafJoin> joins(static_cast<std::size_t>(pool.threads()),
                              LeafJoin(row, source_.kernels, nearest));
  const auto join = [&](std::span<const NodeId> members, int thread) {
    if (!stages_.job().Cancelled()) joins[static_cast<std::size_t>(thread)].Run(members);
  };
  const NodeId all = leaves.pieces();
  return loader.For({0, all}, all, collect, [&](NodeRange pieces) {
    HMANN_RETURN_IF_ERROR(read);
    HMANN_RETURN_IF_ERROR(leaves.ForEach(pieces, nearest.nodes(), pool, join));
    const auto upto = [&](NodeId piece) {
      return std::uint64_t{nearest.nodes().size()} * piece / all;
    };
    stages_.job().progress.Advance(upto(pieces.last) - upto(pieces.first));
    return stages_.job().CheckCancelled();
  });
}

}  // namespace hmann
