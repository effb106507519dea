#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "index/base/task_context.h"
#include "index/construct/graph/node_vectors.h"
#include "index/construct/jobs/node_subset.h"
#include "index/construct/jobs/stages.h"

namespace hmann {

/// The room of a job in memory, where it loads all it needs at once.
constexpr std::uint64_t kUnbounded = std::uint64_t{1} << 60;

/// Loads the vectors that jobs over consecutive ranges need: for as many ranges at once
/// as fit, or for a part of one. The outcome does not depend on it.
class PartLoader {
 public:
  /// Other memory of a job in bytes, and the size of its first part.
  struct Costs {
    std::uint64_t of_loaded = 0;  ///< per loaded node
    std::uint64_t of_part = 0;    ///< per place of the part that is made
    NodeId few = 256;             ///< places are loaded in multiples of this, the smallest part
    NodeId at_first = 0;          ///< places that are tried first; 0: about as many as fit
    bool only_what_fits = false;  ///< a smallest part that exceeds the room is not loaded
  };
  /// Adds the nodes that some places need and prepares whatever else they need. Returns
  /// the bytes that this takes. `nodes` is nullptr where all vectors are in memory.
  using Collect = std::function<std::uint64_t(NodeRange places, NodeSubset* nodes)>;

  /// Both must outlive it.
  PartLoader(const NodeVectors& vectors, std::uint64_t room, const Costs& costs,
             const TaskContext& job);

  /// Calls `make` for consecutive parts of a range, when what they need is loaded. `run`:
  /// places up to this one come next. Errors: CANCELLED, RESOURCE_EXHAUSTED, those of
  /// `make`.
  absl::Status For(NodeRange range, NodeId run, const Collect& collect,
                   const std::function<absl::Status(NodeRange)>& make);

  /// The next call loads anew.
  void Forget() { places_ = {0, 0}; }
  /// Memory in bytes per loaded node, in addition to Costs.
  static std::uint64_t BytesOf(const NodeVectors& vectors) {
    return vectors.stride + NodeVectors::kBytesOfGather + sizeof(NodeId);
  }

  /// The loaded nodes, the same as an ascending list, their vectors by number, and how
  /// often that has changed.
  const NodeSubset& nodes() const { return nodes_; }
  const std::vector<NodeId>& list() const { return list_; }
  const StoredVectors& vectors() const { return loaded_; }
  bool has_all() const { return vectors_.all != nullptr; }
  /// Whether the vectors of nodes() are loaded; see Costs::only_what_fits.
  bool fits() const { return fits_; }
  const std::byte* Row(NodeId node) const { return loaded_.Row(nodes_.Local(node)); }
  NodeRange places() const { return places_; }
  std::uint64_t loads() const { return loads_; }

 private:
  absl::Status Load(NodeRange range, NodeId run, const Collect& collect);

  const NodeVectors& vectors_;
  std::uint64_t room_;
  Costs costs_;
  const TaskContext& job_;
  NodeSubset nodes_;
  std::vector<NodeId> list_;
  StoredVectors loaded_;
  NodeRange places_{0, 0};
  NodeId size_ = 0;  ///< places that are tried next
  std::uint64_t loads_ = 0;
  bool fits_ = true;
};

}  // namespace hmann
