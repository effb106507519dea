#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "hmann/distance.h"
#include "hmann/search_params.h"
#include "hmann/tier.h"
#include "index/base/prefetch.h"
#include "index/codes/encoder.h"
#include "index/codes/scalar_quantizer.h"
#include "index/format/layout.h"
#include "index/graph/cells.h"
#include "index/graph/layer_search.h"
#include "index/graph/layers.h"
#include "index/tiers/block_cache.h"
#include "index/tiers/emulation.h"

namespace hmann {

/// The part of a record that a traversal reads at a step. kRecord: an unpromoted node's
/// whole record.
enum class RecordPart : std::uint8_t { kLinks, kRow, kLabel, kRowAndLinks, kRecord };

/// A byte range within a record.
struct RecordExtent {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

/// An index as the traversals see it: the location of each structure, on any tier. Not
/// owned; immutable.
struct PlacedIndex {
  Kernels kernels;
  Layers layers;
  std::vector<LayerView> upper;            ///< [i]: layer i + 1; promoted vectors shared
  const std::byte* fast_labels = nullptr;  ///< n1 x label_bytes
  std::uint32_t label_bytes = 4;
  /// Ids by label and, for user labels, the labels in that order. These are mapped files
  /// that have not been compared with their checksums.
  std::span<const NodeId> label_order;
  std::span<const std::uint64_t> sorted_labels;
  std::vector<std::uint64_t> label_marks;  ///< every kLabelsPerMark-th of sorted_labels
  const Encoder* encoder = nullptr;        ///< nullptr: the index has no codes
  const std::byte* codes = nullptr;        ///< (n - n1) x code_bytes, in fast memory
  std::uint32_t code_bytes = 0;
  const Cells* cells = nullptr;  ///< nullptr where `encoder` is
  /// This index as seen by a traversal that uses codes of scalar quantization. Its
  /// kernels and rows are those of the codes. The rows of all nodes are contiguous, where
  /// other views have the rows of promoted nodes. nullptr: there is no such view. Not
  /// owned.
  const PlacedIndex* coded = nullptr;
  const ScalarQuantizer* quantizer = nullptr;  ///< of such a view; else nullptr
  RecordLayout records;                        ///< of L0
  const std::byte* l0 = nullptr;    ///< L0's records on an addressable tier; else nullptr
  const Region* blocks = nullptr;   ///< the region of a block tier that holds them
  EmulatedBus* emulated = nullptr;  ///< of an emulated tier: sees each access to l0
  BlockCache* cache =
      nullptr;          ///< of slow records: by record if addressable, by block on a block tier
  bool mapped = false;  ///< l0 is in a mapped file, which may not fit in memory
  bool far = false;     ///< l0 is farther than DRAM: worth prefetching during L1
  std::uint64_t read_buffer_bytes = 0;  ///< a searcher's buffers for block-tier reads

  NodeId n1() const { return layers.n1(); }
  /// L0 is memory that needs neither a cache nor an emulation layer.
  bool IsPlain() const { return l0 != nullptr && emulated == nullptr && cache == nullptr; }
  /// Ids below this have their rows in fast memory.
  NodeId fast_rows() const { return quantizer != nullptr ? layers.n() : n1(); }
  /// A distance of 1 by `kernels`, in distances of the index itself.
  float DistanceUnit() const { return quantizer != nullptr ? quantizer->unit() : 1; }
  /// How many of a traversal's nodes a search for k keeps. With codes it keeps more, to
  /// be ranked by their exact distances. Four times is a guess.
  std::uint32_t KeptFor(std::uint32_t k) const { return coded != nullptr ? 4 * k : k; }
  /// What the parameters of a search here depend on: the one place that defines it.
  SearchContext Context() const {
    return {.n = layers.n(),
            .n1 = n1(),
            .has_codes = encoder != nullptr,
            .block_tier = blocks != nullptr,
            .far = far,
            .has_ratios = kernels.metric != Metric::kInnerProduct,
            .scalar_bits = coded != nullptr ? coded->quantizer->bits() : 0,
            .row_bytes = (coded != nullptr ? coded : this)->kernels.row_bytes};
  }
  const std::byte* Code(NodeId id) const {
    return codes + static_cast<std::size_t>(id - n1()) * code_bytes;
  }
  /// The row of an id below fast_rows().
  const std::byte* FastRow(NodeId id) const { return upper[0].Row(id); }
  /// Bytes of a copy of any record, part after part.
  std::uint32_t MostRecordBytes() const {
    return std::max(n1() > 0 ? records.RecordBytes(0) : 0, records.RecordBytes(kMaxNodes));
  }
  std::uint32_t RowBytes(NodeId id) const { return id < n1() ? 0 : records.row_bytes; }
  /// What to prefetch of a row in L0, from its first byte on. A row that does not start
  /// on a cache line may end in one more.
  std::size_t RowPrefetchBytes() const {
    const bool aligned = records.regions[1].heads.stride % kCacheLineBytes == 0;
    return PrefetchBytes(kernels) + (aligned ? 0 : kCacheLineBytes - 1);
  }
  /// Copies a record, part after part.
  void CopyRecord(NodeId id, const std::byte* record, std::byte* to) const {
    for (const RecordExtent& extent : Extents(id, RecordPart::kRecord))
      to = std::copy_n(record + extent.offset, extent.bytes, to);
  }
  const std::byte* Record(NodeId id) const { return l0 + records.Offset(id); }
  /// The row in L0 of an unpromoted node.
  const std::byte* Row(NodeId id) const { return l0 + records.RowOffset(id); }
  /// Unpacks the links of `id`, records.max_links, to `links`, and returns these. A link
  /// >= n, as kNoNode, ends the list.
  const NodeId* Links(NodeId id, const std::byte* record, NodeId* links) const {
    records.Unpack(record + records.LinksOffset(id), links);
    return links;
  }

  /// Where parts lie, from the record on: row, then list or label. A part that is not
  /// asked for has no bytes.
  std::array<RecordExtent, 2> Extents(NodeId id, RecordPart part) const {
    const std::uint32_t tail = records.LinksOffset(id), list = records.list_bytes,
                        row = RowBytes(id);
    switch (part) {
      case RecordPart::kLinks:
        return {{{}, {tail, list}}};
      case RecordPart::kRow:
        return {{{0, row}, {}}};
      case RecordPart::kRowAndLinks:
        return {{{0, row}, {tail, list}}};
      case RecordPart::kRecord:
        return {{{0, row}, {tail, list + (id < n1() ? 0 : label_bytes)}}};
      default:
        return {{{}, {tail + list, label_bytes}}};
    }
  }

  /// Of kLinks, kRow or kLabel.
  std::span<const std::byte> Bytes(NodeId id, RecordPart part) const {
    const auto [row, tail] = Extents(id, part);
    return {Record(id) + tail.offset, row.bytes + tail.bytes};
  }
  /// Calls use(bytes) for each part of the record.
  template <typename Use>
  void ForBytes(NodeId id, RecordPart part, const Use& use) const {
    const std::byte* record = Record(id);
    for (const RecordExtent& extent : Extents(id, part))
      if (extent.bytes > 0) use(std::span(record + extent.offset, extent.bytes));
  }

  /// Label of a promoted node.
  std::uint64_t FastLabel(NodeId id) const {
    return ReadLabel(fast_labels + static_cast<std::size_t>(id) * label_bytes);
  }
  /// Label of an unpromoted node, from its record.
  std::uint64_t SlowLabel(NodeId id, const std::byte* record) const {
    return ReadLabel(record + records.LabelOffset(id));
  }

 private:
  std::uint64_t ReadLabel(const std::byte* place) const {
    std::uint64_t label = 0;
    std::memcpy(&label, place, label_bytes);
    return label;
  }
};

}  // namespace hmann
