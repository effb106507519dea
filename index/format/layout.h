#pragma once

#include <algorithm>
#include <cstdint>

#include "index/graph/link_packing.h"
#include "index/graph/types.h"

namespace hmann {

/// The unit of block-device reads, and the alignment of every section of the file.
constexpr std::uint64_t kBlockBytes = 4096;

/// Where each node's record lies in section L0, and the layout within a record. See
/// FORMAT.md, "Section l0".
///
/// A promoted node (id < n1) has a *link record*, its list of max_links numbers of
/// link_bits bits. Every other node has a *full record*, a row and a tail:
///
///     [ row: row_bytes ]  [ list: list_bytes | label: label_bytes ]
///
/// Link records fill region A. Full records fill region B, which starts on a block. A
/// block holds whole records, first their rows, then their tails, so that a node read
/// takes one block and rows of whole cache lines start on one. A longer record starts on
/// a block and takes whole blocks. A value; immutable after Make. In format 2 list_bytes
/// includes the gap before a label.
struct RecordLayout : LinkPacking {
  /// Requires n1 <= n <= kMaxNodes, label_bytes 4 or 8, row_bytes and max_links below
  /// 2^24 (so that nothing overflows).
  static RecordLayout Make(std::uint64_t n, std::uint64_t n1, std::uint32_t max_links,
                           std::uint32_t row_bytes, std::uint32_t label_bytes);

  /// The records of format 2, for UpgradeIndex: row, links of 32 bits and label one after
  /// another, padded to whole cache lines.
  static RecordLayout MakeOld(std::uint64_t n, std::uint64_t n1, std::uint32_t max_links,
                              std::uint32_t row_bytes, std::uint32_t label_bytes);

  /// Byte offset of id's record within section L0: of the list of a link record, of the
  /// row of a full record.
  std::uint64_t Offset(NodeId id) const {
    const Region& region = regions[id >= n1];
    return region.heads.Offset(RankOf(id), region.units_each);
  }
  /// The same for an id >= n1, in fewer instructions.
  std::uint64_t RowOffset(NodeId id) const {
    return regions[1].heads.Offset(id - n1, regions[1].units_each);
  }
  /// Byte offset of id's list within section L0.
  std::uint64_t ListOffset(NodeId id) const {
    const Region& region = regions[id >= n1];
    return region.tails.Offset(RankOf(id), region.units_each);
  }
  /// Bytes from Offset(id) to the list.
  std::uint32_t LinksOffset(NodeId id) const {
    return static_cast<std::uint32_t>(ListOffset(id) - Offset(id));
  }
  std::uint32_t LabelOffset(NodeId id) const { return LinksOffset(id) + list_bytes; }
  /// Bytes that a node read takes: whole blocks.
  std::uint32_t UnitBytes(bool full) const { return regions[full].unit_bytes; }
  std::uint32_t MostUnitBytes() const { return std::max(UnitBytes(false), UnitBytes(true)); }
  /// Bytes of id's record without padding.
  std::uint32_t RecordBytes(NodeId id) const {
    return id < n1 ? list_bytes : row_bytes + list_bytes + label_bytes;
  }
  /// Bytes of the section, a multiple of kBlockBytes.
  std::uint64_t TotalBytes() const { return total_bytes; }

  std::uint64_t n = 0, n1 = 0;
  std::uint32_t row_bytes = 0;
  std::uint32_t label_bytes = 0;

  /// The unit of id's record: the blocks that a node read takes.
  struct Place {
    std::uint64_t unit;  ///< its offset in the section
    std::uint32_t slot;  ///< of the record in it
  };
  Place PlaceOf(NodeId id) const {
    const Region& region = regions[id >= n1];
    const std::uint64_t rank = RankOf(id);
    return {region.begin + rank / region.per_unit * region.unit_bytes,
            static_cast<std::uint32_t>(rank % region.per_unit)};
  }

  /// Where the records of a region have one of their parts: at begin + rank * stride,
  /// plus `waste` for each unit before.
  struct Parts {
    std::uint64_t begin = 0, waste = 0;
    std::uint32_t stride = 0;

    std::uint64_t Offset(std::uint64_t rank, std::uint64_t units_each) const {
      const auto unit =
          static_cast<std::uint64_t>(static_cast<unsigned __int128>(units_each) * rank >> 64);
      return begin + rank * stride + unit * waste;
    }
  };
  struct Region {
    std::uint64_t begin = 0;
    std::uint32_t unit_bytes = 0;  ///< a block, or the blocks of a long record
    std::uint32_t per_unit = 0;    ///< records
    std::uint64_t units_each = 0;  ///< units a record, fraction of 2^64, rounded up; 0: no waste
    Parts heads;                   ///< rows; of link records, the lists
    Parts tails;                   ///< lists
  };
  Region regions[2];  ///< A: link records, B: full records
  std::uint64_t total_bytes = 0;

 private:
  std::uint64_t RankOf(NodeId id) const { return id - (id >= n1 ? n1 : 0); }
};

}  // namespace hmann
