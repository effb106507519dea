#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/job.h"
#include "index/construct/node_subset.h"
#include "index/construct/partition.h"
#include "index/construct/stages.h"
#include "index/distance/distance.h"

namespace hmann {

/// What a layer is joined of, and with how much memory at a time.
struct StreamedSource {
  const Kernels& kernels;                 ///< that links are made with
  std::size_t stride = 0;                 ///< of a stored vector
  std::span<const std::uint32_t> unique;  ///< rows that are linked, ascending
  /// Stored vector `row`, to `place`. From several threads; fast where rows ascend.
  std::function<void(std::uint32_t row, std::byte* place)> copy;
  std::uint32_t m = 0;
  float alpha = 1;
  std::uint64_t seed = 0;
  std::uint64_t room = 0;  ///< bytes that a job may take for what it loads
};

/// A layer that is joined by leaves as JoinBottom joins it, with the same links, but by
/// jobs that each load a part of it, from files and into files. A stage whose files are
/// there is left out; files that no later stage reads are removed.
///
/// The stages: lead (leaders of each vector), rows and near (vectors and leaders in the
/// order of nodes), shard (leaves of some groups at a time), lists (the nearest of each
/// node), links, back.
class StreamedLayer {
 public:
  /// `stages` is copied; what it refers to must outlive this.
  StreamedLayer(StreamedSource source, const Stages& stages);

  /// The order of nodes: node i < unique.size() is the vector unique[order[i]]. Errors:
  /// CANCELLED, RESOURCE_EXHAUSTED, those of files; of all that follows, too.
  absl::StatusOr<std::vector<std::uint32_t>> Order();
  /// Stored vectors by node: `row_of` as Order says, or longer: copies come behind.
  absl::StatusOr<Buffer> Rows(std::span<const std::uint32_t> row_of,
                              std::span<const std::uint32_t> order);
  /// Links of nodes [0, unique.size()), 2m each: those of LinkBack. After Rows.
  absl::StatusOr<Buffer> Links(const std::byte* rows);

  /// Calls `make` for consecutive parts of a range, each as long as what it loads fits:
  /// `collect` says which nodes those are, of which each takes so many bytes.
  absl::Status ForParts(NodeRange range, std::uint64_t bytes_of_loaded, std::uint64_t bytes_of_own,
                        NodeSubset& loaded, const std::function<void(NodeRange)>& collect,
                        const std::function<absl::Status(NodeRange)>& make) const;

  /// Writes the links of a part to `writer`: those in `links` and `more`, chosen anew
  /// where they are too many, as LinkMerger does, and what `finish` makes of them.
  /// `loaded`: the nodes that have more, their links, and these.
  absl::Status MergeInto(NodeRange part, const NodeSubset& loaded, const std::byte* rows,
                         const NodeId* links,
                         const std::function<std::span<const NodeId>(NodeId)>& more,
                         ArtefactWriter& writer,
                         const std::function<void(NodeId, std::span<NodeId>)>& finish = nullptr);

  const StreamedSource& source() const { return source_; }
  const Stages& stages() const { return stages_; }
  Stages& stages() { return stages_; }
  NodeId count() const { return static_cast<NodeId>(source_.unique.size()); }
  std::uint32_t list_length() const { return 2 * source_.m; }

 private:
  /// Whether every file of a stage that is done, and needed by one that is not, is there;
  /// otherwise all of the layer is made again.
  void CheckWhatIsThere();
  bool HasShards() const;

  absl::Status MakeNear(std::span<const std::uint32_t> order);
  /// In how many shards the groups are joined, so that each fits.
  absl::StatusOr<std::uint32_t> ChooseShards(const Buffer& near);
  absl::Status JoinShards(const std::byte* rows);
  absl::Status JoinShard(const Buffer& near, const std::byte* rows, std::uint32_t shard,
                         std::uint32_t shards);
  absl::Status MergeLists(const std::byte* rows);
  absl::Status MakeLinks(const std::byte* rows);
  absl::Status LinkBackRanges(const std::byte* rows);

  StreamedSource source_;
  Stages stages_;
  PartitionOptions partition_;
  std::uint32_t groups_ = 0, fan_ = 0;
};

}  // namespace hmann
