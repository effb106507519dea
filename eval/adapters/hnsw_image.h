/// hnswlib's index as plain memory: exactly what its search reads, in its own layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/adapters/touch_access.h"
#include "index/base/buffer.h"
#include "index/base/status_macros.h"

namespace hmann::eval {

/// Records of level 0 (links: count and ids, u32 each; vector; label, u64), a table of
/// pointers to the upper-level lists, and these lists, contiguous. The memory uses 2 MiB
/// pages where the machine has them, as the tiers' own memory does.
struct HnswImage {
  std::uint32_t nodes = 0, entry = 0;
  int top_level = 0;
  std::size_t record_bytes = 0, links_bytes = 0, vector_bytes = 0, list_bytes = 0;
  Buffer records, table, lists;
  std::vector<int> level_of;

  const std::byte* Record(std::uint32_t node) const {
    return records.data() + std::size_t{node} * record_bytes;
  }
  const std::byte* Vector(std::uint32_t node) const { return Record(node) + links_bytes; }
  const std::byte* Label(std::uint32_t node) const { return Vector(node) + vector_bytes; }
  const std::byte* const* TableEntry(std::uint32_t node) const {
    return reinterpret_cast<const std::byte* const*>(table.data()) + node;
  }

  /// In the order in which hnswlib loads it; lines are numbered consecutively.
  std::vector<IndexMemory> Memory() const {
    std::vector<IndexMemory> memory;
    std::uint64_t line = 0;
    for (const Buffer* part : {&records, &table, &lists}) {
      memory.push_back({{part->data(), part->size()}, line});
      line += (part->size() + 63) / 64;
    }
    return memory;
  }
  std::uint64_t Lines() const {
    return (records.size() + 63) / 64 + (table.size() + 63) / 64 + (lists.size() + 63) / 64;
  }
};

/// `Index`: hnswlib::HierarchicalNSW without deleted elements. Errors:
/// RESOURCE_EXHAUSTED.
template <typename Index>
absl::StatusOr<HnswImage> CopyOfHnswlib(const Index& index) {
  HnswImage image;
  image.nodes = static_cast<std::uint32_t>(index.cur_element_count);
  image.entry = index.enterpoint_node_;
  image.top_level = index.maxlevel_;
  image.record_bytes = index.size_data_per_element_;
  image.links_bytes = index.offsetData_;
  image.vector_bytes = index.data_size_;
  image.list_bytes = index.size_links_per_element_;
  image.level_of.assign(index.element_levels_.begin(), index.element_levels_.begin() + image.nodes);
  std::size_t lists = 0;
  for (const int level : image.level_of) lists += static_cast<std::size_t>(level);
  HMANN_ASSIGN_OR_RETURN(image.records, Buffer::Allocate(image.nodes * image.record_bytes));
  HMANN_ASSIGN_OR_RETURN(image.table, Buffer::Allocate(image.nodes * sizeof(std::byte*)));
  HMANN_ASSIGN_OR_RETURN(image.lists,
                         Buffer::Allocate(std::max<std::size_t>(1, lists * image.list_bytes)));
  std::memcpy(image.records.data(), index.data_level0_memory_, image.nodes * image.record_bytes);
  std::byte* next = image.lists.data();
  for (std::uint32_t node = 0; node < image.nodes; ++node) {
    const std::size_t bytes = static_cast<std::size_t>(image.level_of[node]) * image.list_bytes;
    if (bytes == 0) continue;
    std::memcpy(next, index.linkLists_[node], bytes);
    std::memcpy(image.table.data() + node * sizeof next, &next, sizeof next);
    next += bytes;
  }
  return image;
}

}  // namespace hmann::eval
