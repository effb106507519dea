#include "index/construct/jobs/node_subset.h"

#include <algorithm>

namespace hmann {

void NodeSubset::Clear() {
  std::fill(words_.begin(), words_.end(), 0);
  size_ = 0;
}

NodeId NodeSubset::Number() {
  size_ = 0;
  std::size_t behind_last = 0;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    ranks_[i] = size_;
    size_ += CountBits(words_[i]);
    if (words_[i] != 0) behind_last = 64 * i + static_cast<std::size_t>(std::bit_width(words_[i]));
  }
  first_ones_ = behind_last == size_;
  return size_;
}

std::vector<NodeId> NodeSubset::Nodes() const {
  std::vector<NodeId> nodes;
  nodes.reserve(size_);
  for (std::size_t i = 0; i < words_.size(); ++i) {
    for (std::uint64_t left = words_[i]; left != 0; left &= left - 1)
      nodes.push_back(static_cast<NodeId>(64 * i) + static_cast<NodeId>(std::countr_zero(left)));
  }
  return nodes;
}

}  // namespace hmann
