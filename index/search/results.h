#pragma once

#include "hmann/matches.h"
#include "index/graph/layer_search.h"

namespace hmann {

/// The possible answers of a search, kept apart from the beam that it traverses: the
/// nearest nodes that it has scored and that match.
struct Results {
  const Matches* only = nullptr;  ///< nullptr: every node matches. Not owned
  Beam beam;

  void Open(const Matches* matches, std::uint32_t width) {
    only = matches;
    beam.Reset(width);
  }
  bool May(NodeId id) const { return only == nullptr || only->Has(id); }
  /// Offers a node that may have been offered before.
  void Offer(DistanceKey key, NodeId id) {
    if (key <= beam.bound() && May(id)) beam.InsertUnique(key, id);
  }
  /// Offers the scored nodes of a batch.
  void Offer(const RowBatch& batch) {
    if (only != nullptr) {
      for (std::uint32_t i = 0; i < batch.size; ++i) Offer(batch.keys[i], batch.ids[i]);
    } else {
      for (std::uint32_t i = 0; i < batch.size; ++i) beam.InsertUnique(batch.keys[i], batch.ids[i]);
    }
  }
};

}  // namespace hmann
