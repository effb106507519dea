#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/graph/types.h"

namespace hmann {

/// The fault of a link list and its position.
struct LinkFault {
  std::size_t position = 0;
  const char* expected = nullptr;
  bool ok() const { return expected == nullptr; }
};

/// Checks `self`'s list in a layer of `nodes` nodes: links in range, no self-link, no
/// duplicate, kNoNode only at the end. `sorted` is scratch. Adds the number of links to
/// `links`.
inline LinkFault CheckLinkList(std::span<const NodeId> list, NodeId self, NodeId nodes,
                               std::vector<NodeId>& sorted, std::uint64_t& links) {
  const auto end = std::find(list.begin(), list.end(), kNoNode);
  const auto degree = static_cast<std::size_t>(end - list.begin());
  for (std::size_t i = 0; i < degree; ++i) {
    if (list[i] >= nodes) return {i, "a node of this layer"};
    if (list[i] == self) return {i, "another node than itself"};
  }
  for (std::size_t i = degree; i < list.size(); ++i) {
    if (list[i] != kNoNode) return {i, "no link after the end of the list"};
  }
  sorted.assign(list.begin(), end);
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    const auto first = std::find(list.begin(), end, *twice);
    return {static_cast<std::size_t>(std::find(first + 1, end, *twice) - list.begin()),
            "no link twice"};
  }
  links += degree;
  return {};
}

}  // namespace hmann
