#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/construct/jobs/joined_layer.h"
#include "index/construct/jobs/leaders.h"

namespace hmann {

/// Joins a layer that is cut into parts, so that a build reads its vectors a few times
/// whatever the memory. Its stages (kPartedStages):
///
/// - shelf: the members of each part, its own vectors and its guests, with copies of the
///   vectors if the build has a folder;
/// - part: each part is joined alone (JoinedLayer), as if it were all;
/// - back: the lists of a node in its parts become one. Where they are too long, the
///   links to members of its home are chosen anew; the others, of which only the
///   distance is known there, compete with those by it.
class PartedLayer {
 private:
  struct Member {
    std::uint32_t vector;  ///< its place in JoinedSource::unique
    PartsOfVector parts;
    std::uint16_t unused = 0;
    std::uint16_t home() const { return parts[0]; }
    bool IsIn(std::uint32_t part) const {
      return parts[0] == part || parts[1] == part || parts[2] == part;
    }
  };

 public:
  /// The number of parts of a layer of `count` vectors. 1: it is not cut.
  static std::uint32_t PartsOf(NodeId count, const PartitionOptions& options);

  /// Whether a part of `members` is joined within `room` bytes of memory, with all that
  /// its stages leave. Otherwise they leave it in the folder.
  static bool FitsInMemory(std::uint64_t members, std::uint64_t stride, std::uint32_t m,
                           std::uint64_t room);

  /// The members of a part, about. Measured on SIFT; for other data a guess.
  static std::uint64_t MembersOf(std::uint64_t n, std::uint32_t parts) {
    return static_cast<std::uint64_t>(kPartsOfVector * static_cast<double>(n) / parts);
  }
  static constexpr double kPartsOfVector = 2.1;

  /// Both must outlive this.
  PartedLayer(const JoinedSource& source, Stages& stages);

  /// Makes the stages up to "part". Returns the order of nodes, part by part. Errors:
  /// those of JoinedLayer.
  absl::StatusOr<std::vector<std::uint32_t>> Order();
  /// Makes "back". `order`: as Order returned it. Errors: likewise.
  absl::Status Merge(std::span<const std::uint32_t> order);

 private:
  /// The members of a part, in the order of their vectors, and copies of these.
  class Shelf;
  class PartLists;
  class Merger;

  NodeId count() const { return static_cast<NodeId>(source_.unique.size()); }
  absl::StatusOr<PartLeaders> Leaders() const;
  absl::Status MakeShelves();
  absl::Status FillShelf(NodeRange range, const PartLeaders& leaders, ArtifactWriter& writer) const;
  absl::Status MakePart(std::uint32_t part);
  /// In all its parts a vector follows as many groups as one part would give it.
  JoinedSource::Effort EffortFor(const Member& member, std::uint32_t part) const;
  absl::Status WritePart(std::uint32_t part, std::span<const Member> members,
                         const JoinedLayer& layer, std::span<const std::uint32_t> order);
  /// `homes`: the part's own vectors in their order; `made`: the words of the lists,
  /// [block][home].
  absl::Status PutPart(std::uint32_t part, std::span<const std::uint32_t> homes,
                       std::span<const std::vector<std::vector<std::uint32_t>>> made) const;
  absl::Status MergePart(PartLists& lists, const Shelf& shelf, NodeRange nodes,
                         ArtifactWriter& writer);

  const JoinedSource& source_;
  Stages& stages_;
  const std::uint32_t parts_;
};

}  // namespace hmann
