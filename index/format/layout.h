#pragma once

#include <cstdint>

#include "index/graph/types.h"

namespace hmann {

/// The unit of block-device reads, and the alignment of every section of the file.
constexpr std::uint64_t kBlockBytes = 4096;

/// Where each node's record lies in section L0, and the layout within a record. See
/// FORMAT.md, "Section l0".
///
/// A promoted node (id < n1) has a *link record*, max_links x u32. Every other node has a
/// *full record*,
///
///     [ row: row_bytes | links: max_links x u32 | label: label_bytes ]
///
/// Records start on a cache line. Link records fill region A. Full records fill region B,
/// which starts on a block. In both, a record that fits a block does not straddle two, so
/// that a node read takes one block. A longer record starts on a block and takes whole
/// blocks. A value; immutable after Make.
struct RecordLayout {
  /// Requires n1 <= n <= kMaxNodes, label_bytes 4 or 8, row_bytes and max_links below
  /// 2^24 (so that nothing overflows).
  static RecordLayout Make(std::uint64_t n, std::uint64_t n1, std::uint32_t max_links,
                           std::uint32_t row_bytes, std::uint32_t label_bytes);

  /// Byte offset of id's record within section L0.
  std::uint64_t Offset(NodeId id) const {
    const bool full = id >= n1;
    const Region& region = regions[full];
    const std::uint64_t rank = id - (full ? n1 : 0);
    const auto block = static_cast<std::uint64_t>(
        (static_cast<unsigned __int128>(region.blocks_per_record) * rank) >> 64);
    return region.begin + rank * region.stride + block * region.block_waste;
  }
  /// Bytes of id's record, a multiple of 64, without the gap up to the next block.
  std::uint32_t RecordBytes(NodeId id) const { return regions[id >= n1].record_bytes; }
  /// Bytes from the start of id's record to its links.
  std::uint32_t LinksOffset(NodeId id) const { return id >= n1 ? links_offset : 0; }
  /// Bytes from the start of id's record to the end of its links. A search mode reads
  /// this part: everything but the label.
  std::uint32_t LinksEnd(NodeId id) const {
    return LinksOffset(id) + max_links * static_cast<std::uint32_t>(sizeof(NodeId));
  }
  /// Bytes of the section, a multiple of kBlockBytes.
  std::uint64_t TotalBytes() const { return total_bytes; }

  std::uint64_t n = 0, n1 = 0;
  std::uint32_t max_links = 0;  ///< M_0
  std::uint32_t row_bytes = 0;
  std::uint32_t label_bytes = 0;
  std::uint32_t row_offset = 0;  ///< this and the next two: for full records
  std::uint32_t links_offset = 0;
  std::uint32_t label_offset = 0;

  struct Region {
    std::uint64_t begin = 0;
    std::uint32_t record_bytes = 0;
    std::uint64_t stride = 0;
    std::uint64_t blocks_per_record = 0;  ///< fraction of 2^64, rounded up; 0 if block_waste is 0
    std::uint64_t block_waste = 0;        ///< bytes at the end of a block that hold no record
  };
  Region regions[2];  ///< A: link records, B: full records
  std::uint64_t total_bytes = 0;
};

}  // namespace hmann
