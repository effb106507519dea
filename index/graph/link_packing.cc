#include "index/graph/link_packing.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "absl/status/statusor.h"
#include "hmann/distance.h"

namespace hmann {
namespace {

UnpackList BestUnpack() {
#if defined(__x86_64__)
  if (const absl::StatusOr<std::string_view> simd = ChosenSimd(); simd.ok() && *simd != "scalar")
    return UnpackAvx2;
#endif
  return UnpackScalar;
}

}  // namespace

void UnpackScalar(const std::byte* list, std::uint32_t bits, std::uint32_t count,
                  std::uint32_t* links) {
  const std::uint32_t mask = ~std::uint32_t{0} >> (32 - bits);
  std::uint64_t bit = 0;
  for (std::uint32_t i = 0; i < count; ++i, bit += bits) {
    std::uint64_t word;
    std::memcpy(&word, list + bit / 8, sizeof(word));
    links[i] = static_cast<std::uint32_t>(word >> bit % 8) & mask;
  }
}

LinkPacking LinkPacking::Of(std::uint32_t max_links, std::uint64_t n) {
  LinkPacking packing;
  packing.max_links = max_links;
  packing.link_bits = static_cast<std::uint32_t>(std::bit_width(n));
  packing.list_bytes = (max_links * packing.link_bits + 7) / 8;
  packing.unpack = BestUnpack();
  return packing;
}

void LinkPacking::UnpackPadded(const std::byte* list, NodeId* links) const {
  Unpack(list, links);
  std::replace(links, links + max_links, ~NodeId{0} >> (32 - link_bits), kNoNode);
}

void LinkPacking::Pack(const NodeId* links, std::byte* list) const {
  const NodeId none = ~NodeId{0} >> (32 - link_bits);
  std::uint32_t bit = 0;
  for (std::uint32_t i = 0; i < max_links; ++i, bit += link_bits) {
    std::uint64_t word;
    std::memcpy(&word, list + bit / 8, sizeof(word));
    word |= std::uint64_t{links[i] & none} << bit % 8;
    std::memcpy(list + bit / 8, &word, sizeof(word));
  }
}

std::vector<std::byte> LinkPacking::PackAll(std::span<const NodeId> lists) const {
  if (max_links == 0) return {};
  const std::size_t count = lists.size() / max_links;
  std::vector<std::byte> packed(count * list_bytes + kListSlackBytes);
  for (std::size_t i = 0; i < count; ++i)
    Pack(lists.data() + i * max_links, packed.data() + i * list_bytes);
  packed.resize(count * list_bytes);
  return packed;
}

}  // namespace hmann
