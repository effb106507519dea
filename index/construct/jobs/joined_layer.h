#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/distance.h"
#include "index/construct/graph/node_vectors.h"
#include "index/construct/jobs/leaf_store.h"
#include "index/construct/jobs/nearest_lists.h"
#include "index/construct/jobs/part_loader.h"
#include "index/construct/jobs/partition.h"
#include "index/construct/jobs/stages.h"
#include "index/construct/jobs/stored_lists.h"

namespace hmann {

/// The vectors that a layer is joined from, and the memory to use at a time.
struct JoinedSource {
  const Kernels& kernels;                 ///< for making links
  std::size_t stride = 0;                 ///< of a stored vector
  std::span<const std::uint32_t> unique;  ///< rows that are linked, ascending
  NodeVectors::Copy copy;                 ///< copies stored vectors by row
  std::uint32_t m = 0;
  float alpha = 1;
  PartitionOptions partition;
  std::uint64_t room = kUnbounded;  ///< bytes that a job may take for what it loads
  /// The work for a vector: the groups that it follows, at least one, and the nearest out
  /// of which its links are chosen. If these are fewer than a list holds, their own
  /// nearest are not looked at.
  struct Effort {
    std::uint32_t fan, candidates;
  };
  /// By the vector's place in `unique`; nullptr: partition.fan and all.
  std::function<Effort(std::uint32_t)> effort = nullptr;
};

/// A layer that is joined by leaves. The members of each leaf are all compared with each
/// other, and each node's links are chosen from its nearest. Its stages (StagesOf)
/// are jobs that leave artifacts. On disk each job loads a part of the layer. A stage
/// whose artifacts exist is skipped. Artifacts that no later job reads are removed.
class JoinedLayer {
 public:
  /// Copies `stages`. Everything that `stages` refers to must outlive this.
  JoinedLayer(JoinedSource source, const Stages& stages);

  /// The order of nodes: node i < unique.size() is the vector unique[order[i]]. Errors,
  /// also of all the functions below: CANCELLED, RESOURCE_EXHAUSTED, those of files.
  absl::StatusOr<std::vector<std::uint32_t>> Order();
  /// Makes the missing stages up to `last`: "lists" (mapped by Lists) or "back", the
  /// links of nodes [0, unique.size()) (mapped by Back). `row_of`: as Order says, or
  /// longer, with copies behind. Both spans must outlive this. Errors: as Order.
  absl::Status Make(std::string_view last, std::span<const std::uint32_t> row_of,
                    std::span<const std::uint32_t> order);
  absl::StatusOr<StoredLists> Lists() const {
    return StoredLists::Map(stages_, count(), list_length());
  }
  /// How the links of a node are stored out of `nodes` nodes, copies included.
  LinkPacking Packing(NodeId nodes) const { return LinkPacking::Of(list_length(), nodes); }
  /// Maps up to 2m links for each node.
  absl::StatusOr<PackedLists> Back() const {
    HMANN_ASSIGN_OR_RETURN(Buffer links, stages_.Map("back", count()));
    return PackedLists(std::move(links), Packing(count()));
  }

  /// Bytes of vectors and links that a loader must account for where links are merged.
  PartLoader::Costs MergeCosts() const {
    return {.of_loaded = sizeof(NodeId),
            .of_part = 2 * std::uint64_t{list_length()} * sizeof(NodeId)};
  }
  /// Appends the links of a node to `list`.
  using LinksOf = std::function<void(NodeId node, std::vector<NodeId>* list)>;
  /// Writes the links of a part, packed as for n nodes: `old` ones and `more`. Where they
  /// are too many, they are chosen anew, as LinkMerger does. Then `finish` may change
  /// each list. `loader` has loaded the nodes that CollectMerged adds: nodes whose links
  /// have to be chosen, and these links.
  absl::Status MergeInto(
      NodeRange part, const PartLoader& loader, const LinksOf& old, const LinksOf& more, NodeId n,
      ArtifactWriter& writer,
      const std::function<void(NodeId, std::span<NodeId>)>& finish = nullptr) const;
  void CollectMerged(NodeRange part, const LinksOf& old, const LinksOf& more,
                     NodeSubset& nodes) const;

  const JoinedSource& source() const { return source_; }
  const NodeVectors& vectors() const { return vectors_; }
  const Stages& stages() const { return stages_; }
  Stages& stages() { return stages_; }
  NodeId count() const { return static_cast<NodeId>(source_.unique.size()); }
  std::uint32_t list_length() const { return 2 * source_.m; }

 private:
  /// Checks that every file of a finished stage exists that an unfinished stage needs.
  /// Otherwise the whole layer is made again.
  void CheckWhatIsThere();
  /// Whether it is cut into parts (PartedLayer).
  bool IsParted() const;
  bool HasAllLeaves() const;
  /// Whether an artifact is complete, except for parts that stage `reader` has already
  /// read. nullptr: it is always read.
  bool Has(const char* artifact, const LayerStage* reader) const;

  absl::StatusOr<std::vector<std::uint32_t>> OrderOfGroups();
  absl::Status MakeLead();
  absl::Status MakeNear();
  absl::Status MakeLeaves();
  /// Writes the leaves of some groups. `members`: places in `nodes`, which are loaded.
  absl::Status SplitGroups(NodeRange groups, std::span<const NodeId> nodes,
                           const PartLoader& loader,
                           const std::function<std::span<const NodeId>(NodeId)>& members,
                           ArtifactWriter& writer) const;
  /// The same of one group, whose nodes do not fit.
  absl::Status SplitLarge(std::span<const NodeId> nodes, ArtifactWriter& writer) const;
  absl::Status JoinAll();
  /// Fills `nearest`. Loads vectors for the nodes `wanted`, which may be more.
  absl::Status JoinPart(const StoredLeaves& leaves, NodeRange wanted, PartLoader& loader,
                        NearestLists& nearest) const;
  absl::Status ChooseLinks();
  absl::Status LinkBackRanges();

  JoinedSource source_;
  Stages stages_;
  std::span<const std::uint32_t> order_;
  NodeVectors vectors_;  ///< by node, from Make on
  StoredVectors rows_;   ///< the rows of vectors_, if they are in memory
  std::uint32_t groups_ = 0, fan_ = 0;
};

/// The jobs of the leaf stage: some groups each.
std::vector<NodeRange> LeafJobs(std::uint32_t groups);
/// The number of leaf jobs of a layer of `count` vectors.
std::size_t CountLeafJobs(NodeId count);

}  // namespace hmann
