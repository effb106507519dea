#pragma once

#include <algorithm>

#include "absl/status/status.h"
#include "index/base/status_macros.h"
#include "index/graph/types.h"

namespace hmann {

/// Nodes [first, last).
struct NodeRange {
  NodeId first, last;
  NodeId size() const { return last - first; }
};

/// Nodes per part when an artifact is made. It is small, so little waits to be appended.
constexpr NodeId kNodesOfPart = 1 << 14;

/// Calls `take` with parts of a range, in order, until one fails.
template <typename Take>
absl::Status ForParts(NodeRange range, const Take& take) {
  for (NodeRange part{range.first, range.first}; part.last < range.last; part.first = part.last) {
    part.last = part.first + std::min(kNodesOfPart, range.last - part.first);
    HMANN_RETURN_IF_ERROR(take(part));
  }
  return absl::OkStatus();
}

}  // namespace hmann
