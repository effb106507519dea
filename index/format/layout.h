#pragma once

#include <algorithm>
#include <cstdint>

#include "index/base/buffer.h"
#include "index/graph/link_packing.h"
#include "index/graph/types.h"

namespace hmann {

/// The alignment of every section of the file.
constexpr std::uint64_t kBlockBytes = 4096;
/// The least that drives read.
constexpr std::uint64_t kSectorBytes = 512;

/// Where each node's record lies in section L0, and the layout within a record. See
/// FORMAT.md, "Section l0".
///
/// A promoted node (id < n1) has a *link record*, its list of max_links numbers of
/// link_bits bits. Every other node has a *full record*, a row and a tail:
///
///     [ row: row_bytes ]  [ list: list_bytes | label: label_bytes ]
///
/// Link records fill region A. Full records fill region B, which starts on a block. Both
/// consist of *units*. A node read takes the sectors that its unit touches.
///
/// A unit of at most a block has whole records, first their rows, then their tails, so
/// that rows of whole cache lines start on one. Where that would waste more than a
/// fifteenth, region B is *packed*: a unit is one record, and starts anywhere. A value;
/// immutable after Make.
struct RecordLayout : LinkPacking {
  /// Requires n1 <= n <= kMaxNodes, label_bytes 4 or 8, row_bytes and max_links below
  /// 2^24 (so that nothing overflows).
  static RecordLayout Make(std::uint64_t n, std::uint64_t n1, std::uint32_t max_links,
                           std::uint32_t row_bytes, std::uint32_t label_bytes);

  /// The records of format 3, for UpgradeIndex: units are whole blocks, never packed.
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
  /// Bytes of a unit, and of the longest.
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

  /// The number of the unit of id's record, and of the units of both regions.
  std::uint32_t UnitOf(NodeId id) const {
    const Region& region = regions[id >= n1];
    return static_cast<std::uint32_t>(region.first_unit + region.UnitOf(RankOf(id)));
  }
  std::uint32_t Units() const {
    return n == n1 ? regions[1].first_unit : UnitOf(static_cast<NodeId>(n - 1)) + 1;
  }
  /// Where it lies in the section.
  struct Extent {
    std::uint64_t begin = 0, bytes = 0;

    /// What a drive has to read that reads multiples of `sector` bytes.
    Extent Aligned(std::uint32_t sector) const {
      const std::uint64_t from = begin / sector * sector;
      return {from, RoundUp(begin + bytes, sector) - from};
    }
  };
  Extent ExtentOf(std::uint32_t unit) const {
    const Region& region = regions[unit >= regions[1].first_unit];
    return {region.begin + std::uint64_t{unit - region.first_unit} * region.unit_bytes,
            region.unit_bytes};
  }
  /// The place of id's record in its unit.
  std::uint32_t SlotOf(NodeId id) const {
    return static_cast<std::uint32_t>(RankOf(id) % regions[id >= n1].per_unit);
  }
  /// Bytes that hold what such a drive reads for any unit, at least a block, and the
  /// slack.
  std::uint32_t FrameBytes(std::uint32_t sector) const;

  /// Where the records of a region have one of their parts: at begin + rank * stride,
  /// plus `waste` for each unit before.
  struct Parts {
    std::uint64_t begin = 0, waste = 0;
    std::uint32_t stride = 0;

    std::uint64_t Offset(std::uint64_t rank, std::uint64_t units_each) const {
      return begin + rank * stride + Quotient(rank, units_each) * waste;
    }
  };
  struct Region {
    std::uint64_t begin = 0;
    std::uint32_t first_unit = 0;
    std::uint32_t unit_bytes = 0;
    std::uint32_t per_unit = 0;    ///< records
    std::uint32_t slack = 0;       ///< bytes that must follow the last unit
    std::uint64_t units_each = 0;  ///< units a record, fraction of 2^64, rounded up; 0: one
    Parts heads;                   ///< rows; of link records, the lists
    Parts tails;                   ///< lists

    std::uint64_t UnitOf(std::uint64_t rank) const {
      return units_each == 0 ? rank : Quotient(rank, units_each);
    }
  };
  Region regions[2];  ///< A: link records, B: full records
  std::uint64_t total_bytes = 0;

 private:
  static std::uint64_t Quotient(std::uint64_t rank, std::uint64_t units_each) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(units_each) * rank >> 64);
  }
  std::uint64_t RankOf(NodeId id) const { return id - (id >= n1 ? n1 : 0); }
};

}  // namespace hmann
