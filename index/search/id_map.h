#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "index/graph/types.h"

namespace hmann {

/// Maps a few ids to small numbers: open addressing, sized by use, like VisitedSet. Keeps
/// its memory between queries.
class IdMap {
 public:
  static constexpr std::uint32_t kAbsent = ~std::uint32_t{0};

  IdMap() : slots_(kMinSlots) {}

  void Clear() {
    if (slots_.size() > kMinSlots && size_ * 32 < slots_.size()) slots_.resize(slots_.size() / 2);
    std::fill(slots_.begin(), slots_.end(), Slot());
    size_ = 0;
  }

  std::size_t size() const { return size_; }

  /// kAbsent if `id` has no number.
  std::uint32_t Find(std::uint32_t id) const {
    std::size_t slot = Home(id);
    // Neither there nor empty: one branch, which is nearly always predicted right (see
    // VisitedSet::InsertNew).
    while (std::uint64_t{slots_[slot].id ^ id} * (slots_[slot].id ^ kNoNode) != 0) [[unlikely]]
      slot = (slot + 1) & (slots_.size() - 1);
    return slots_[slot].value;
  }

  /// `id` (not kNoNode) must be absent.
  void Insert(std::uint32_t id, std::uint32_t value) {
    if ((size_ + 1) * 4 > slots_.size()) Grow();
    std::size_t slot = Home(id);
    while (slots_[slot].id != kNoNode) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {id, value};
    ++size_;
  }

  /// `id` must be present. Moves up the entries that its empty slot would hide.
  void Erase(std::uint32_t id) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t hole = Home(id);
    while (slots_[hole].id != id) hole = (hole + 1) & mask;
    for (std::size_t next = (hole + 1) & mask; slots_[next].id != kNoNode;
         next = (next + 1) & mask) {
      // An entry may move to the hole unless its home lies cyclically behind it.
      if (((next - Home(slots_[next].id)) & mask) < ((next - hole) & mask)) continue;
      slots_[hole] = slots_[next];
      hole = next;
    }
    slots_[hole] = Slot();
    --size_;
  }

 private:
  static constexpr std::size_t kMinSlots = 256;
  struct Slot {
    std::uint32_t id = kNoNode;
    std::uint32_t value = kAbsent;
  };

  std::size_t Home(std::uint32_t id) const {
    return ((id * std::uint64_t{0x9e3779b97f4a7c15u}) >> 32) & (slots_.size() - 1);
  }

  void Grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    size_ = 0;
    for (const Slot& slot : old) {
      if (slot.id != kNoNode) Insert(slot.id, slot.value);
    }
  }

  std::vector<Slot> slots_;  ///< a power of two
  std::size_t size_ = 0;
};

}  // namespace hmann
