#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "index/base/buffer.h"
#include "index/base/prefetch.h"
#include "index/base/thread_pool.h"
#include "index/graph/link_packing.h"

namespace hmann {

/// Lists of links one after another, packed, as the artifacts of a build hold them.
class PackedLists {
 public:
  PackedLists() = default;
  PackedLists(Buffer lists, const LinkPacking& packing)
      : lists_(std::move(lists)), packing_(packing) {}

  std::uint32_t max_links() const { return packing_.max_links; }
  bool empty() const { return lists_.size() == 0; }

  /// The links of a list, without unused places; valid as long as `scratch` is not
  /// changed.
  std::span<const NodeId> Read(std::size_t place, std::vector<NodeId>& scratch) const;
  /// Replaces a list. The rest of its places becomes unused.
  void Write(std::size_t place, std::span<const NodeId> list);
  void Prefetch(std::size_t place) const {
    PrefetchUnaligned(lists_.data() + place * packing_.list_bytes, packing_.list_bytes);
  }
  void AdviseRandom(bool random) const { lists_.AdviseRandom(random); }

 private:
  Buffer lists_;
  LinkPacking packing_;
};

/// What packing.PackAll does, by all threads.
std::vector<std::byte> PackAll(const LinkPacking& packing, std::span<const NodeId> lists,
                               ThreadPool& pool);

}  // namespace hmann
