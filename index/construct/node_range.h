#pragma once

#include "index/graph/types.h"

namespace hmann {

/// Nodes [first, last).
struct NodeRange {
  NodeId first, last;
  NodeId size() const { return last - first; }
};

}  // namespace hmann
