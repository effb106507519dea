#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/base/thread_pool.h"
#include "index/construct/jobs/stages.h"
#include "index/graph/types.h"

namespace hmann {

/// A set of node ranges, one bit each.
using RangeMask = std::uint32_t;

/// Stored bytes per member of a leaf, measured on SIFT; a guess for other data.
constexpr double kBytesOfMember = 1.35;

/// Encodes the leaves of a group. Each leaf holds the ranges of its members, the number
/// of bytes that follow, and the members, each as the difference from the previous one.
class LeafEncoder {
 public:
  /// `range`: nodes per range.
  explicit LeafEncoder(NodeId range) : range_(range) {}
  /// `members` must ascend.
  void Add(std::span<const NodeId> members, std::vector<std::byte>* out);

 private:
  NodeId range_;
  std::vector<std::byte> encoded_;
};

/// The leaves that a stage made, mapped.
class StoredLeaves {
 public:
  /// `jobs`: the number of jobs of the stage. `most`: bytes of a piece, unless a single
  /// leaf has more; it has at most as many members. Errors: those of Artifacts::Map;
  /// DATA_LOSS.
  static absl::StatusOr<StoredLeaves> Map(const Stages& stages, std::size_t jobs, NodeId n,
                                          std::uint64_t most);

  /// The number of pieces: groups, or parts of those that are large.
  NodeId pieces() const { return static_cast<NodeId>(pieces_.size()); }
  /// Calls `take` with the members, ascending, of each leaf in `pieces` that has some
  /// members in `nodes`. Errors: DATA_LOSS for a malformed leaf.
  absl::Status ForEach(
      NodeRange pieces, NodeRange nodes, ThreadPool& pool,
      const std::function<void(std::span<const NodeId> members, int thread)>& take) const;

 private:
  NodeId n_ = 0, range_ = 0;
  std::vector<Buffer> files_;
  std::vector<std::span<const std::byte>> pieces_;
};

/// The size in bytes of a group of leaves, stored in front of them.
using GroupBytes = std::uint64_t;

}  // namespace hmann
