#include "index/construct/graph/insertion_order.h"

#include <numeric>
#include <utility>

#include "index/base/random.h"

namespace hmann {
namespace {

/// Separates this order's stream from others of the same seed.
constexpr std::uint64_t kOrderSeed = 0x6f72646572;

}  // namespace

InsertionOrder RandomOrder(DuplicateGroups duplicates, NodeId n, std::uint64_t seed) {
  const auto unique = static_cast<std::uint32_t>(duplicates.unique.size());
  return OrderOf(std::move(duplicates), n, RandomPermutation(unique, seed ^ kOrderSeed));
}

InsertionOrder OrderOf(DuplicateGroups duplicates, NodeId n,
                       const std::vector<std::uint32_t>& places) {
  InsertionOrder order;
  order.inserted = static_cast<NodeId>(duplicates.unique.size());
  order.row_of.resize(n);
  for (NodeId node = 0; node < order.inserted; ++node)
    order.row_of[node] = duplicates.unique[places[node]];
  NodeId next = order.inserted;
  for (const auto& group : duplicates.groups) {
    for (std::size_t i = 1; i < group.size(); ++i) order.row_of[next++] = group[i];
  }
  std::vector<NodeId> node_of(n);
  for (NodeId node = 0; node < n; ++node) node_of[order.row_of[node]] = node;
  order.equal = std::move(duplicates.groups);
  for (std::vector<NodeId>& group : order.equal) {
    for (NodeId& member : group) member = node_of[member];
  }
  return order;
}

InsertionOrder OrderOfRows(DuplicateGroups duplicates, NodeId n) {
  InsertionOrder order;
  order.inserted = n;
  order.row_of.resize(n);
  std::iota(order.row_of.begin(), order.row_of.end(), 0u);
  order.equal = std::move(duplicates.groups);
  return order;
}

}  // namespace hmann
