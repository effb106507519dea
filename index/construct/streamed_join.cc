#include <algorithm>

#include "index/base/status_macros.h"
#include "index/construct/join.h"
#include "index/construct/leaf_store.h"
#include "index/construct/nearest_links.h"
#include "index/construct/nearest_lists.h"
#include "index/construct/streamed_layer.h"

namespace hmann {
namespace {

/// Writes a list for each node that has one: its nearest, to `lists` those that others read,
/// to `rest` what is left.
absl::Status WriteLists(const NearestLists& nearest, ThreadPool& pool, ArtefactWriter& lists,
                        ArtefactWriter& rest) {
  const std::uint32_t length = nearest.length(), first = NodeLinker::AnsweredOf(length);
  const std::uint64_t nodes = nearest.nodes().size();
  HMANN_RETURN_IF_ERROR(lists.Expect(nodes * first * sizeof(NodeId)));
  HMANN_RETURN_IF_ERROR(rest.Expect(nodes * (length - first) * sizeof(NodeId)));
  return ForParts(nearest.nodes(), [&](NodeRange part) {
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
    HMANN_RETURN_IF_ERROR(lists.Append(std::span<const NodeId>(of_lists)));
    return rest.Append(std::span<const NodeId>(of_rest));
  });
}

}  // namespace

absl::Status StreamedLayer::MakeLists() {
  const std::uint64_t of_list = list_length() * (sizeof(NearestLists::Entry) + sizeof(NodeId));
  HMANN_ASSIGN_OR_RETURN(const StoredLeaves leaves,
                         StoredLeaves::Map(stages_, LeafJobs(groups_).size(), count()));
  // Lists of a range, or of what of it fits into a half; the rest is for vectors: all of
  // them, once, or those of some groups at a time, again for every range.
  constexpr std::uint64_t kFew = 4096;
  const std::uint64_t fit = source_.room / 2 / of_list / kFew * kFew;
  const auto size = static_cast<NodeId>(
      std::min<std::uint64_t>(stages_.Ranges(count())[0].size(), std::max(fit, kFew)));
  const std::uint64_t room = source_.room - std::min(source_.room, size * of_list);
  const bool whole = count() * PartLoader::BytesOf(vectors_) <= room;
  NodeRange loaded{0, 0};  // for these
  PartLoader loader(vectors_, room, {.few = 1, .at_first = groups_}, stages_.job());
  return stages_.ForRanges(
      {.phase = "join", .stage = "lists", .n = count(), .beside = "rest"},
      [&](NodeRange range, ArtefactWriter& lists, ArtefactWriter& rest) {
        for (NodeRange part = range; part.first < range.last; part.first = part.last) {
          part.last = part.first + std::min(size, range.last - part.first);
          const NodeRange wanted{part.first, whole ? stages_.RunEnd(count()) : part.last};
          absl::StatusOr<NearestLists> nearest =
              NearestLists::Make(part.size(), list_length(), part.first);
          if (!nearest.ok()) return nearest.status();
          if (!whole || part.first < loaded.first || part.last > loaded.last) {
            loader.Forget();
            loaded = wanted;
          }
          HMANN_RETURN_IF_ERROR(JoinPart(leaves, wanted, loader, *nearest));
          HMANN_RETURN_IF_ERROR(WriteLists(*nearest, stages_.job().pool, lists, rest));
        }
        return absl::OkStatus();
      });
}

absl::Status StreamedLayer::JoinPart(const StoredLeaves& leaves, NodeRange wanted,
                                     PartLoader& loader, NearestLists& nearest) const {
  ThreadPool& pool = stages_.job().pool;
  absl::Status read;  // of what `collect` has read
  const auto collect = [&](NodeRange groups, NodeSubset* nodes) {
    if (nodes == nullptr) return std::uint64_t{0};
    read = leaves.ForEach(groups, wanted, pool, [&](std::span<const NodeId> members, int) {
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
  return loader.For({0, groups_}, groups_, collect, [&](NodeRange groups) {
    HMANN_RETURN_IF_ERROR(read);
    HMANN_RETURN_IF_ERROR(leaves.ForEach(groups, nearest.nodes(), pool, join));
    const auto upto = [&](NodeId group) {
      return std::uint64_t{nearest.nodes().size()} * group / groups_;
    };
    stages_.job().progress.Advance(upto(groups.last) - upto(groups.first));
    return stages_.job().CheckCancelled();
  });
}

}  // namespace hmann
