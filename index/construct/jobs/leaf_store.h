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

/// Which ranges some nodes lie in, a bit each.
using RangeMask = std::uint32_t;

/// Bytes that a member of a leaf takes there: seen on SIFT, elsewhere a guess.
constexpr double kBytesOfMember = 1.35;

/// The leaves of a group as they are stored: of each leaf the ranges that its members lie
/// in, how many bytes follow, and the members, each as the difference to the one before.
class LeafEncoder {
 public:
  /// `range`: nodes of a range.
  explicit LeafEncoder(NodeId range) : range_(range) {}
  /// `members` ascend.
  void Add(std::span<const NodeId> members, std::vector<std::byte>* out);

 private:
  NodeId range_;
  std::vector<std::byte> encoded_;
};

/// The leaves that a stage has made, mapped.
class StoredLeaves {
 public:
  /// `jobs`: of the stage. Errors: those of Artefacts::Map; DATA_LOSS.
  static absl::StatusOr<StoredLeaves> Map(const Stages& stages, std::size_t jobs, NodeId n);

  /// Calls `take` with the members, ascending, of leaves of some groups that have some in
  /// `nodes`. Errors: DATA_LOSS for what is no leaf.
  absl::Status ForEach(
      NodeRange groups, NodeRange nodes, ThreadPool& pool,
      const std::function<void(std::span<const NodeId> members, int thread)>& take) const;

 private:
  NodeId n_ = 0, range_ = 0;
  std::vector<Buffer> files_;
  std::vector<std::span<const std::byte>> groups_;
};

/// Bytes of a group of leaves, in front of them.
using GroupBytes = std::uint32_t;

}  // namespace hmann
