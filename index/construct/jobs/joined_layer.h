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
#include "index/construct/jobs/layer_stages.h"
#include "index/construct/jobs/leaf_store.h"
#include "index/construct/jobs/nearest_lists.h"
#include "index/construct/jobs/part_loader.h"
#include "index/construct/jobs/partition.h"
#include "index/construct/jobs/stages.h"
#include "index/construct/jobs/stored_lists.h"

namespace hmann {

/// What a layer is joined of, and with how much memory at a time.
struct JoinedSource {
  const Kernels& kernels;                 ///< that links are made with
  std::size_t stride = 0;                 ///< of a stored vector
  std::span<const std::uint32_t> unique;  ///< rows that are linked, ascending
  NodeVectors::Copy copy;                 ///< of stored vectors by row
  std::uint32_t m = 0;
  float alpha = 1;
  PartitionOptions partition;
  std::uint64_t room = kUnbounded;  ///< bytes that a job may take for what it loads
};

/// A layer that is joined by leaves: the members of each are compared all with all, and
/// links are chosen of the nearest of each node. Its stages (kLayerStages) are jobs that
/// leave artefacts, and on disk each loads a part of the layer. A stage whose artefacts
/// are there is left out; what no later job reads is removed.
class JoinedLayer {
 public:
  /// `stages` is copied; what it refers to must outlive this.
  JoinedLayer(JoinedSource source, const Stages& stages);

  /// The order of nodes: node i < unique.size() is the vector unique[order[i]]. Errors:
  /// CANCELLED, RESOURCE_EXHAUSTED, those of files; of all that follows, too.
  absl::StatusOr<std::vector<std::uint32_t>> Order();
  /// Makes the stages up to `last` that are not made yet: "lists" (Lists maps them) or
  /// "back", which are the links of nodes [0, unique.size()) (Back maps them). `row_of`:
  /// as Order says, or longer: copies come behind. Both must outlive this. Errors: as
  /// Order.
  absl::Status Make(std::string_view last, std::span<const std::uint32_t> row_of,
                    std::span<const std::uint32_t> order);
  absl::StatusOr<StoredLists> Lists() const {
    return StoredLists::Map(stages_, count(), list_length());
  }
  /// 2m links for each node.
  absl::StatusOr<Buffer> Back() const { return stages_.Map("back", count()); }

  /// Bytes of vectors and links that a loader reckons with where links are merged.
  PartLoader::Costs MergeCosts() const {
    return {.of_loaded = sizeof(NodeId),
            .of_part = 2 * std::uint64_t{list_length()} * sizeof(NodeId)};
  }
  /// The links of a node as it appends them to `list`.
  using LinksOf = std::function<void(NodeId node, std::vector<NodeId>* list)>;
  /// Writes the links of a part to `writer`: `old` ones and `more`, chosen anew where
  /// they are too many, as LinkMerger does, and what `finish` makes of them. `loader` has
  /// loaded what CollectMerged says: nodes whose links have to be chosen, and these.
  absl::Status MergeInto(
      NodeRange part, const PartLoader& loader, const LinksOf& old, const LinksOf& more,
      ArtefactWriter& writer,
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
  /// Whether every file of a stage that is done, and needed by one that is not, is there;
  /// otherwise all of the layer is made again.
  void CheckWhatIsThere();
  bool HasAllLeaves() const;
  /// All of it, as far as the stage that reads it has not been; none: it is always read.
  bool Has(const char* artefact, const LayerStage* reader) const;

  absl::Status MakeLead();
  absl::Status MakeNear();
  absl::Status MakeLeaves();
  /// Writes the leaves of some groups; `members`: places in `nodes`, which are loaded.
  absl::Status SplitGroups(NodeRange groups, std::span<const NodeId> nodes,
                           const PartLoader& loader,
                           const std::function<std::span<const NodeId>(NodeId)>& members,
                           ArtefactWriter& writer) const;
  absl::Status JoinAll();
  /// Finds what `nearest` holds; vectors are loaded for the nodes `wanted`, which may be
  /// more.
  absl::Status JoinPart(const StoredLeaves& leaves, NodeRange wanted, PartLoader& loader,
                        NearestLists& nearest) const;
  absl::Status ChooseLinks();
  absl::Status LinkBackRanges();

  JoinedSource source_;
  Stages stages_;
  std::span<const std::uint32_t> order_;
  NodeVectors vectors_;  ///< by node, from Make on,
  StoredVectors rows_;   ///< where they are in memory
  std::uint32_t groups_ = 0, fan_ = 0;
};

/// Jobs of the stage of leaves: some groups each.
std::vector<NodeRange> LeafJobs(std::uint32_t groups);
/// Of a layer of so many vectors.
std::size_t CountLeafJobs(NodeId count);

}  // namespace hmann
