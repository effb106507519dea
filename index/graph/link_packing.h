#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/graph/types.h"

namespace hmann {

/// Bytes after a list that the functions below may read.
constexpr std::uint32_t kListSlackBytes = 16;

/// Writes the `count` numbers of `bits` bits (1 to 32) at `list` to `links`.
using UnpackList = void (*)(const std::byte* list, std::uint32_t bits, std::uint32_t count,
                            std::uint32_t* links);

void UnpackScalar(const std::byte* list, std::uint32_t bits, std::uint32_t count,
                  std::uint32_t* links);
/// Only for CPUs with AVX2.
void UnpackAvx2(const std::byte* list, std::uint32_t bits, std::uint32_t count,
                std::uint32_t* links);

/// How a list of links is packed: max_links numbers of link_bits bits one after another.
/// Unused places, the last ones, have all bits set, which no node number has.
struct LinkPacking {
  /// The packing of lists of up to max_links (below 2^24) out of n nodes.
  static LinkPacking Of(std::uint32_t max_links, std::uint64_t n);

  /// Writes the max_links numbers of a list to `links`. Unused places have a number that
  /// is no node. Reads up to kListSlackBytes after the list.
  void Unpack(const std::byte* list, NodeId* links) const {
    unpack(list, link_bits, max_links, links);
  }
  /// The same, with kNoNode in unused places.
  void UnpackPadded(const std::byte* list, NodeId* links) const;
  /// The reverse. `list` must be zero, with kListSlackBytes after it.
  void Pack(const NodeId* links, std::byte* list) const;
  /// Packs lists of max_links numbers each, one after another, without slack.
  std::vector<std::byte> PackAll(std::span<const NodeId> lists) const;

  std::uint32_t max_links = 0;
  std::uint32_t link_bits = 0;   ///< least that hold n
  std::uint32_t list_bytes = 0;  ///< of a packed list
  UnpackList unpack = UnpackScalar;
};

}  // namespace hmann
