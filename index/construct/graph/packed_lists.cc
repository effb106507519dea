#include "index/construct/graph/packed_lists.h"

#include <algorithm>
#include <cstring>

namespace hmann {

std::span<const NodeId> PackedLists::Read(std::size_t place, std::vector<NodeId>& scratch) const {
  const std::uint32_t bytes = packing_.list_bytes;
  const std::byte* list = lists_.data() + place * bytes;
  std::vector<std::byte> last;
  if ((place + 1) * bytes + kListSlackBytes > lists_.size()) {
    last.assign(list, list + bytes);
    last.resize(bytes + kListSlackBytes);
    list = last.data();
  }
  scratch.resize(packing_.max_links);
  packing_.UnpackPadded(list, scratch.data());
  return {scratch.begin(), std::find(scratch.begin(), scratch.end(), kNoNode)};
}

void PackedLists::Write(std::size_t place, std::span<const NodeId> list) {
  std::vector<NodeId> padded(packing_.max_links, kNoNode);
  std::copy(list.begin(), list.end(), padded.begin());
  const std::vector<std::byte> packed = packing_.PackAll(padded);
  std::memcpy(lists_.data() + place * packing_.list_bytes, packed.data(), packed.size());
}

std::vector<std::byte> PackAll(const LinkPacking& packing, std::span<const NodeId> lists,
                               ThreadPool& pool) {
  const std::size_t length = packing.max_links, count = length == 0 ? 0 : lists.size() / length;
  std::vector<std::byte> packed(count * packing.list_bytes);
  pool.ParallelFor(count, 4096, [&](std::size_t begin, std::size_t end, int) {
    const std::vector<std::byte> some =
        packing.PackAll(lists.subspan(begin * length, (end - begin) * length));
    std::copy(some.begin(), some.end(), packed.data() + begin * packing.list_bytes);
  });
  return packed;
}

}  // namespace hmann
