#include "index/graph/cells.h"

namespace hmann {

Cells::Cells(NodeId n, NodeId n1, std::span<const CellEntry> entries,
             std::span<const NodeId> second_centroids)
    : n1_(n1), cell_of_(n1, kNoNode), words_((n - n1 + 63) / 64) {
  for (const CellEntry& entry : entries) {
    cell_of_[entry.centroid] = static_cast<std::uint32_t>(centroids_.size());
    centroids_.push_back(entry.centroid);
    first_.push_back(entry.first);
    words_[(entry.first - n1) / 64].starts |= std::uint64_t{1} << (entry.first - n1) % 64;
  }
  first_.push_back(n);
  for (std::size_t i = 1; i < words_.size(); ++i)
    words_[i].before = words_[i - 1].before + CountBits(words_[i - 1].starts);
  if (second_centroids.empty()) return;
  replica_begin_.resize(std::size_t{n1} + 1);
  for (const NodeId centroid : second_centroids) ++replica_begin_[centroid + 1];
  for (NodeId centroid = 0; centroid < n1; ++centroid)
    replica_begin_[centroid + 1] += replica_begin_[centroid];
  replicas_.resize(second_centroids.size());
  std::vector<std::uint32_t> next(replica_begin_.begin(), replica_begin_.end() - 1);
  for (std::size_t i = 0; i < second_centroids.size(); ++i)
    replicas_[next[second_centroids[i]]++] = n1 + static_cast<NodeId>(i);
}

std::uint64_t Cells::bytes() const {
  return (centroids_.size() + first_.size() + cell_of_.size() + replica_begin_.size() +
          replicas_.size()) *
             sizeof(NodeId) +
         words_.size() * sizeof(Word);
}

std::int64_t CellFault(NodeId n, NodeId n1, std::span<const CellEntry> entries) {
  if (entries.empty() ? n != n1 : entries[0].first != n1)
    return static_cast<std::int64_t>(entries.size());
  std::vector<bool> seen(n1);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool ascends =
        entries[i].first < n && (i == 0 || entries[i].first > entries[i - 1].first);
    if (!ascends || entries[i].centroid >= n1 || seen[entries[i].centroid])
      return static_cast<std::int64_t>(i);
    seen[entries[i].centroid] = true;
  }
  return -1;
}

}  // namespace hmann
