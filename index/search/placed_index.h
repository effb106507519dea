#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "hmann/distance.h"
#include "hmann/search_options.h"
#include "hmann/tier.h"
#include "index/codes/encoder.h"
#include "index/codes/scalar_quantiser.h"
#include "index/format/layout.h"
#include "index/graph/cells.h"
#include "index/graph/layer_search.h"
#include "index/graph/layers.h"
#include "index/tiers/block_cache.h"
#include "index/tiers/emulation.h"

namespace hmann {

class MigrationHelpers;

/// What a walk reads of a record at a step. kRecord: all of an unpromoted node's.
enum class RecordPart : std::uint8_t { kLinks, kRow, kLabel, kRowAndLinks, kRecord };

/// Bytes of a record, from its start.
struct RecordExtent {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

/// An index as the walks see it: where each structure lies, whatever tier holds it. Not
/// owned; immutable.
struct PlacedIndex {
  Kernels kernels;
  Layers layers;
  std::vector<LayerView> upper;            ///< [i] is layer i + 1; all share the promoted vectors
  const std::byte* fast_labels = nullptr;  ///< n1 x label_bytes
  std::uint32_t label_bytes = 4;
  /// Ids by label and, of user labels, every kLabelsPerMark-th label; mapped files, which
  /// nobody has compared with their checksums. Empty: the index has none.
  std::span<const NodeId> label_order;
  std::span<const std::uint64_t> label_marks;
  const Encoder* encoder = nullptr;  ///< nullptr: the index has no codes
  const std::byte* codes = nullptr;  ///< (n - n1) x code_bytes, in fast memory
  std::uint32_t code_bytes = 0;
  const Cells* cells = nullptr;  ///< like `codes`, nullptr where `encoder` is
  /// This index as a walk sees it that goes by codes of scalar quantisation: its kernels
  /// and rows are theirs, and rows of all nodes lie one after the other where others have
  /// those of promoted nodes. nullptr: there are none. Not owned.
  const PlacedIndex* coded = nullptr;
  const ScalarQuantiser* quantiser = nullptr;  ///< of such a view; else nullptr
  RecordLayout records;                        ///< of L0
  const std::byte* l0 = nullptr;    ///< L0's records on an addressable tier; else nullptr, and
  const Region* blocks = nullptr;   ///< the region of a block tier that holds them
  EmulatedBus* emulated = nullptr;  ///< of an emulated tier: who must be told of every touch of l0
  BlockCache* cache =
      nullptr;  ///< of slow records: by record on an addressable tier, by block on a block tier
  MigrationHelpers* helpers = nullptr;  ///< threads that copy ahead, for Prefetch::kHelper
  bool far = false;  ///< l0 is farther than DRAM: worth fetching from while L1 is searched
  std::uint64_t migration_bytes = 0;  ///< buffers of a searcher for reads from a block tier

  NodeId n1() const { return layers.n1(); }
  /// Ids below it have their rows in fast memory.
  NodeId fast_rows() const { return quantiser != nullptr ? layers.n() : n1(); }
  /// Of the walk's nodes, as many as a search for k keeps: of codes more, to be ranked by
  /// their exact distances. Four times is a guess.
  std::uint32_t KeptFor(std::uint32_t k) const { return coded != nullptr ? 4 * k : k; }
  /// What the dials of a search here depend on: the one place that says so.
  SearchContext Context() const {
    return {.n = layers.n(),
            .n1 = n1(),
            .has_codes = encoder != nullptr,
            .block_tier = blocks != nullptr,
            .far = far,
            .has_ratios = kernels.metric != Metric::kInnerProduct,
            .scalar_bits = coded != nullptr ? coded->quantiser->bits() : 0,
            .has_helpers = helpers != nullptr};
  }
  const std::byte* Code(NodeId id) const {
    return codes + static_cast<std::size_t>(id - n1()) * code_bytes;
  }
  /// Of an id below fast_rows().
  const std::byte* FastRow(NodeId id) const { return upper[0].Row(id); }
  /// Of the longest record: that of an unpromoted node.
  std::uint32_t MostRecordBytes() const {
    return std::max(records.regions[0].record_bytes, records.regions[1].record_bytes);
  }
  const std::byte* Record(NodeId id) const { return l0 + records.Offset(id); }
  /// Links of `id` within its record: padded with kNoNode to records.max_links. A link >=
  /// n ends the list too: it stands in a corrupt file only.
  const NodeId* Links(NodeId id, const std::byte* record) const {
    return reinterpret_cast<const NodeId*>(record + records.LinksOffset(id));
  }

  RecordExtent Extent(NodeId id, RecordPart part) const {
    switch (part) {
      case RecordPart::kLinks:
        return {records.LinksOffset(id),
                records.max_links * static_cast<std::uint32_t>(sizeof(NodeId))};
      case RecordPart::kRow:
        return {records.row_offset, records.row_bytes};
      case RecordPart::kRowAndLinks:
        return {0, records.LinksEnd(id)};
      case RecordPart::kRecord:
        return {0, records.label_offset + label_bytes};
      default:
        return {records.label_offset, label_bytes};
    }
  }

  std::span<const std::byte> Bytes(NodeId id, RecordPart part) const {
    const RecordExtent extent = Extent(id, part);
    return {Record(id) + extent.offset, extent.bytes};
  }

  /// Label of a promoted node.
  std::uint64_t FastLabel(NodeId id) const {
    return ReadLabel(fast_labels + static_cast<std::size_t>(id) * label_bytes);
  }
  /// Label within the record of a node that is not.
  std::uint64_t SlowLabel(const std::byte* record) const {
    return ReadLabel(record + records.label_offset);
  }

 private:
  std::uint64_t ReadLabel(const std::byte* place) const {
    std::uint64_t label = 0;
    std::memcpy(&label, place, label_bytes);
    return label;
  }
};

}  // namespace hmann
