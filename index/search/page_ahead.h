#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/search/placed_index.h"

namespace hmann {

/// Requests pages of a mapped L0 before they are touched, so that the drive reads all
/// pages of a step together, also those of other queries in flight. A page fault reads
/// one and stops the thread.
///
/// It is on while the queries of this thread have to read from a drive, which the kernel
/// counts. For an index in memory it costs a system call in eight queries. One per
/// searching thread.
class PageAhead {
 public:
  explicit PageAhead(const PlacedIndex& index) : mapped_(index.mapped) {}

  /// A query begins.
  void Begin() {
    if (mapped_ && ++queries_ == until_look_) Look();
  }
  bool on() const { return on_; }
  /// On if `other` is, whose thread works on the same query.
  void Follow(const PageAhead& other) { on_ = other.on_; }

  /// Adds the pages of these bytes to the next request. Call only while it is on.
  void Add(std::span<const std::byte> bytes);
  /// Requests what was added, and does not wait for it.
  void Send();

 private:
  void Look();

  const bool mapped_;
  bool on_ = false;
  std::uint32_t queries_ = 0;            ///< since it looked last
  std::uint32_t until_look_ = 1;         ///< queries
  std::int64_t read_ = -1;               ///< by this thread, when it looked last; -1: never
  std::vector<const std::byte*> pages_;  ///< that were added
};

}  // namespace hmann
