#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "index/base/job.h"
#include "index/construct/graph/node_vectors.h"
#include "index/construct/jobs/node_subset.h"
#include "index/construct/jobs/stages.h"

namespace hmann {

/// Room of a job in memory, where all that it needs is loaded at once.
constexpr std::uint64_t kUnbounded = std::uint64_t{1} << 60;

/// Loads the vectors that jobs over consecutive ranges need: of as many ranges at once as
/// fit, or of a part of one. What is made does not depend on it.
class PartLoader {
 public:
  /// What else a job keeps in memory, in bytes, and where it begins.
  struct Costs {
    std::uint64_t of_loaded = 0;  ///< each node that is loaded
    std::uint64_t of_part = 0;    ///< each place of the part that is made, to a range
    NodeId few = 4096;            ///< places are loaded by so many; fewer are not tried
    NodeId at_first = 0;          ///< places that are tried first; 0: as many as fit, about
  };
  /// Says which nodes some places need, and makes ready what else they do; returns bytes
  /// that this takes. Vectors that are in memory are all there: `nodes` is none then.
  using Collect = std::function<std::uint64_t(NodeRange places, NodeSubset* nodes)>;

  /// Both must outlive it.
  PartLoader(const NodeVectors& vectors, std::uint64_t room, const Costs& costs, const Job& job);

  /// Calls `make` for consecutive parts of a range, when what they need is there. `run`:
  /// places up to this one are asked for next. Errors: CANCELLED, RESOURCE_EXHAUSTED,
  /// those of `make`.
  absl::Status For(NodeRange range, NodeId run, const Collect& collect,
                   const std::function<absl::Status(NodeRange)>& make);

  /// The next call begins to load anew.
  void Forget() { places_ = {0, 0}; }
  /// Bytes of memory that a node takes which is loaded, besides Costs.
  static std::uint64_t BytesOf(const NodeVectors& vectors) {
    return vectors.stride + NodeVectors::kBytesOfGather + sizeof(NodeId);
  }

  /// What is there: nodes, their vectors by number, and how often that has changed.
  const NodeSubset& nodes() const { return nodes_; }
  const StoredVectors& vectors() const { return loaded_; }
  bool has_all() const { return vectors_.all != nullptr; }
  const std::byte* Row(NodeId node) const { return loaded_.Row(nodes_.Local(node)); }
  NodeRange places() const { return places_; }
  std::uint64_t loads() const { return loads_; }

 private:
  absl::Status Load(NodeRange range, NodeId run, const Collect& collect);

  const NodeVectors& vectors_;
  std::uint64_t room_;
  Costs costs_;
  const Job& job_;
  NodeSubset nodes_;
  StoredVectors loaded_;
  NodeRange places_{0, 0};
  NodeId size_ = 0;  ///< places that are tried next
  std::uint64_t loads_ = 0;
};

}  // namespace hmann
