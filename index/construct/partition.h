#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/job.h"
#include "index/construct/vectors.h"
#include "index/distance/distance.h"
#include "index/graph/types.h"

namespace hmann {

/// How vectors are put into overlapping leaves, within which all are compared with all
/// (PiPNN, arXiv 2602.21247: ball carving by random leaders).
struct PartitionOptions {
  std::uint32_t leaders = 1000;  ///< of a split, at most; of the first, that all are compared with
  std::uint32_t fan = 8;         ///< nearest leaders that a vector follows in the first split,
  std::uint32_t fan_below = 2;   ///< and in the second; one in those that follow
  std::uint32_t group = 12'000;  ///< followers of a leader of the first split, if those are more
  std::uint32_t leaf = 400;      ///< vectors of a leaf, at most
  std::uint64_t seed = 1;
};

/// For n vectors: a constant fan would lose neighbours with n. The numbers are of 60,000
/// and a million vectors of two sets (doc/paper.md, 12.h): elsewhere they are a guess.
PartitionOptions PartitionFor(std::uint64_t n, std::uint64_t seed);

/// Distances that a vector of n takes part in, about.
struct PartitionWork {
  double to_leaders = 0;
  double in_leaves = 0;  ///< to members of its leaves, each pair once
};
PartitionWork WorkOfPartition(std::uint64_t n);

/// Overlapping groups of vectors that are near each other: each follows the nearest of
/// some random leaders. A function of the vectors, their number, the options and the seed
/// alone.
class Partition {
 public:
  /// `rows[i]`, i < count: stored vectors of `vectors` by number. Errors: CANCELLED.
  static absl::StatusOr<Partition> Make(const StoredVectors& vectors, const Kernels& kernels,
                                        std::span<const std::uint32_t> rows,
                                        const PartitionOptions& options, const Job& job);

  const PartitionOptions& options() const { return options_; }
  /// Members of all groups; a vector is in several.
  std::size_t memberships() const { return members_.size(); }
  std::uint32_t groups() const { return static_cast<std::uint32_t>(ends_.size()); }
  /// Numbers of `rows` whose nearest leader is the group's: group by group, so that those
  /// near each other come together.
  const std::vector<std::uint32_t>& order() const { return order_; }
  /// Places in order() of a group's members, ascending.
  std::span<const NodeId> Members(std::uint32_t group) const {
    const std::size_t begin = group == 0 ? 0 : ends_[group - 1];
    return {members_.data() + begin, ends_[group] - begin};
  }

 private:
  PartitionOptions options_;
  std::vector<std::uint32_t> order_;
  std::vector<NodeId> members_;
  std::vector<std::size_t> ends_;  ///< [group]: where its members end
};

/// Splits the members of a group until every leaf fits, and hands each to `leaf`. What
/// cannot be told apart (nearly all members follow one leader) is cut by place.
void ForEachLeaf(std::span<const NodeId> members, const StoredVectors& vectors,
                 const Kernels& kernels, const PartitionOptions& options,
                 const std::function<void(std::span<const NodeId>)>& leaf);

}  // namespace hmann
