#include "index/construct/graph/duplicates.h"

#include <algorithm>
#include <utility>

namespace hmann {

DuplicateGroups GroupEqual(std::vector<HashedRow> hashed,
                           const std::function<bool(std::uint32_t, std::uint32_t)>& equal) {
  const auto n = static_cast<std::uint32_t>(hashed.size());
  std::sort(hashed.begin(), hashed.end(), [](const HashedRow& a, const HashedRow& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.row < b.row;
  });
  DuplicateGroups found;
  found.unique.reserve(n);
  std::vector<std::vector<std::uint32_t>>
      same_hash;  // groups under one hash; more than one only after a collision
  for (std::size_t begin = 0; begin < n;) {
    std::size_t end = begin;
    same_hash.clear();
    for (; end < n && hashed[end].hash == hashed[begin].hash; ++end) {
      auto group = std::find_if(same_hash.begin(), same_hash.end(), [&](const auto& other) {
        return equal(other.front(), hashed[end].row);
      });
      if (group == same_hash.end())
        group = same_hash.insert(same_hash.end(), std::vector<std::uint32_t>());
      group->push_back(hashed[end].row);
    }
    for (auto& group : same_hash) {
      found.unique.push_back(group.front());
      if (group.size() == 1) continue;
      found.copies += group.size() - 1;
      found.groups.push_back(std::move(group));
    }
    begin = end;
  }
  std::sort(found.unique.begin(), found.unique.end());
  std::sort(found.groups.begin(), found.groups.end());
  return found;
}

void LinkCopy(std::span<const NodeId> group, std::size_t i, std::span<NodeId> links) {
  const auto most = static_cast<std::uint32_t>(links.size());
  std::uint32_t count = CountLinks(links.data(), most);
  const std::size_t first_child = 2 * i + 1;
  const std::size_t children =
      std::min<std::size_t>(2, group.size() - std::min(group.size(), first_child));
  if (i > 0) links[count++] = group[(i - 1) / 2];
  count = std::min<std::uint32_t>(count, most - static_cast<std::uint32_t>(children));
  for (std::size_t child = 0; child < children; ++child)
    links[count++] = group[first_child + child];
}

void LinkDuplicates(const std::vector<std::vector<NodeId>>& groups, InsertionGraph& graph) {
  for (const std::vector<NodeId>& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i)
      LinkCopy(group, i, {graph.Links(0, group[i]), graph.max_degree(0)});
  }
}

}  // namespace hmann
