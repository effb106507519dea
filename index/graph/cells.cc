#include "index/graph/cells.h"

namespace hmann {

Cells::Cells(NodeId n, NodeId n1, std::span<const CellEntry> entries, std::span<const NodeId> second_hubs)
    : n1_(n1), cell_of_(n1, kNoNode), words_((n - n1 + 63) / 64) {
  for (const CellEntry& entry : entries) {
    cell_of_[entry.hub] = static_cast<std::uint32_t>(hubs_.size());
    hubs_.push_back(entry.hub);
    first_.push_back(entry.first);
    words_[(entry.first - n1) / 64].starts |= std::uint64_t{1} << (entry.first - n1) % 64;
  }
  first_.push_back(n);
  for (std::size_t i = 1; i < words_.size(); ++i) words_[i].before = words_[i - 1].before + CountBits(words_[i - 1].starts);
  if (second_hubs.empty()) return;
  guest_begin_.resize(std::size_t{n1} + 1);
  for (const NodeId hub : second_hubs) ++guest_begin_[hub + 1];
  for (NodeId hub = 0; hub < n1; ++hub) guest_begin_[hub + 1] += guest_begin_[hub];
  guests_.resize(second_hubs.size());
  std::vector<std::uint32_t> next(guest_begin_.begin(), guest_begin_.end() - 1);
  for (std::size_t i = 0; i < second_hubs.size(); ++i) guests_[next[second_hubs[i]]++] = n1 + static_cast<NodeId>(i);
}

std::uint64_t Cells::bytes() const {
  return (hubs_.size() + first_.size() + cell_of_.size() + guest_begin_.size() + guests_.size()) * sizeof(NodeId) +
         words_.size() * sizeof(Word);
}

std::int64_t CellFault(NodeId n, NodeId n1, std::span<const CellEntry> entries) {
  if (entries.empty() ? n != n1 : entries[0].first != n1) return static_cast<std::int64_t>(entries.size());
  std::vector<bool> seen(n1);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool ascends = entries[i].first < n && (i == 0 || entries[i].first > entries[i - 1].first);
    if (!ascends || entries[i].hub >= n1 || seen[entries[i].hub]) return static_cast<std::int64_t>(i);
    seen[entries[i].hub] = true;
  }
  return -1;
}

}  // namespace hmann
