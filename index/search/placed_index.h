#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "index/distance/distance.h"
#include "index/format/layout.h"
#include "index/graph/layer_search.h"
#include "index/graph/layers.h"

namespace hmann {

/// An index as the walks see it: where each structure lies, whatever tier holds it. Not owned; immutable.
struct PlacedIndex {
  Kernels kernels;
  Layers layers;
  std::vector<LayerView> upper;            ///< [i] is layer i + 1; all share the promoted vectors
  const std::byte* fast_labels = nullptr;  ///< n1 x label_bytes
  std::uint32_t label_bytes = 4;
  RecordLayout records;           ///< of L0
  const std::byte* l0 = nullptr;  ///< L0's records on an addressable tier

  NodeId n1() const { return layers.n1(); }
  const std::byte* FastRow(NodeId id) const { return upper[0].Row(id); }
  const std::byte* Record(NodeId id) const { return l0 + records.Offset(id); }
  /// Links of `id` within its record: padded with kNoNode to records.max_links. A link >= n ends the list too: it stands in a corrupt file
  /// only.
  const NodeId* Links(NodeId id, const std::byte* record) const {
    return reinterpret_cast<const NodeId*>(record + records.LinksOffset(id));
  }

  std::uint64_t Label(NodeId id) const {
    const std::byte* place = id < n1() ? fast_labels + static_cast<std::size_t>(id) * label_bytes : Record(id) + records.label_offset;
    std::uint64_t label = 0;
    std::memcpy(&label, place, label_bytes);
    return label;
  }
};

}  // namespace hmann
