#include "index/base/status_macros.h"
#include "index/construct/join.h"
#include "index/construct/leaf_store.h"
#include "index/construct/nearest_links.h"
#include "index/construct/nearest_lists.h"
#include "index/construct/streamed_layer.h"

namespace hmann {
namespace {

/// Writes a list for each node of a part: its nearest, to `lists` those that others read,
/// to `rest` what is left.
absl::Status WriteLists(const NearestLists& nearest, NodeRange part, ThreadPool& pool,
                        ArtefactWriter& lists, ArtefactWriter& rest) {
  const std::uint32_t length = nearest.length(), first = NodeLinker::AnsweredOf(length);
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
}

}  // namespace

absl::Status StreamedLayer::MakeLists() {
  ThreadPool& pool = stages_.job().pool;
  HMANN_ASSIGN_OR_RETURN(const StoredLeaves leaves,
                         StoredLeaves::Map(stages_, LeafJobs(groups_).size(), count()));
  PartLoader loader(vectors_, source_.room,
                    {.of_part = list_length() * (sizeof(NearestLists::Entry) + sizeof(NodeId))},
                    stages_.job());
  absl::Status read;  // of what `collect` has read
  const auto collect = [&](NodeRange part, NodeSubset& nodes) {
    read = leaves.ForEach(part, pool, [&](std::span<const NodeId> members, int) {
      for (const NodeId member : members) nodes.Add(member);
    });
    return std::uint64_t{0};
  };
  return stages_.ForRanges(
      {.phase = "join", .stage = "lists", .n = count(), .beside = "rest"},
      [&](NodeRange range, ArtefactWriter& lists, ArtefactWriter& rest) {
        const auto make = [&](NodeRange part) {
          HMANN_RETURN_IF_ERROR(read);
          absl::StatusOr<NearestLists> nearest =
              NearestLists::Make(part.size(), list_length(), part.first);
          if (!nearest.ok()) return nearest.status();
          const auto row = [&](NodeId node) { return loader.Row(node); };
          std::vector<LeafJoin> joins(static_cast<std::size_t>(pool.threads()),
                                      LeafJoin(row, source_.kernels, *nearest));
          HMANN_RETURN_IF_ERROR(
              leaves.ForEach(part, pool, [&](std::span<const NodeId> members, int thread) {
                if (!stages_.job().Cancelled())
                  joins[static_cast<std::size_t>(thread)].Run(members);
              }));
          HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
          return WriteLists(*nearest, part, pool, lists, rest);
        };
        return loader.For(range, stages_.RunEnd(count()), collect, make);
      });
}

}  // namespace hmann
