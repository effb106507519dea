#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "index/graph/types.h"
#include "index/search/id_map.h"
#include "index/search/slow_memory.h"

namespace hmann {

struct PlacedIndex;

/// The migration space of one searcher (section 6 of doc/paper.md): whole records of slow
/// memory, copied ahead by a helper thread. The searcher posts ids, nearest first; a
/// record is used once its copy is complete and otherwise read from slow memory: nobody
/// waits.
///
/// Thread safety: one searcher (Begin, Post, Find) and one helper (CopyOne).
class MigrationSpace {
 public:
  /// Posts of a query that it takes at most.
  static constexpr std::uint32_t kSlots = 512;
  /// Of a space, where the records are of `index`.
  static std::uint64_t Bytes(const PlacedIndex& index);

  explicit MigrationSpace(const PlacedIndex& index);

  /// A new query: what was posted and copied before is forgotten.
  void Begin();
  /// Asks for a copy of the record; false when the space is full or `id` was posted
  /// before.
  bool Post(NodeId id);
  /// The copy of a record that was posted, nullptr while it is not complete.
  const std::byte* Find(NodeId id) const;

  /// Helper's side: makes the next copy that is still wanted; false when there is none.
  bool CopyOne(SlowMemory& memory);

 private:
  /// One copy; `done` is the number of the post that it answers.
  struct Slot {
    std::atomic<std::uint64_t> done{0};
    NodeId id = kNoNode;
  };

  const PlacedIndex& index_;
  std::size_t record_bytes_;
  std::vector<Slot> slots_;  ///< post number p uses slot p % kSlots
  std::vector<std::byte> bytes_;
  std::atomic<std::uint64_t> posted_{0};  ///< posts so far
  std::atomic<std::uint64_t> copied_{0};  ///< posts that the helper is done with
  std::atomic<std::uint64_t> first_{
      0};        ///< first post of the present query; older ones are not worth copying
  IdMap posts_;  ///< id to post number - first
};

/// Threads that copy for the searchers of an index. They spin while a search runs and
/// sleep when none does.
class MigrationHelpers {
 public:
  /// `threads`: at least 1. `emulated`: of the slow tier, whose latency the helpers wait
  /// for as everybody; else nullptr.
  MigrationHelpers(int threads, EmulatedBus* emulated);
  ~MigrationHelpers();
  MigrationHelpers(const MigrationHelpers&) = delete;

  /// A searcher comes and goes; each belongs to the helper that has the fewest.
  void Add(MigrationSpace* space);
  void Remove(MigrationSpace* space);
  int threads() const { return static_cast<int>(queues_.size()); }
  /// Those of the searchers that are here now.
  std::size_t spaces();
  /// A search begins: its helper should be awake.
  void Wake() { asleep_.load(std::memory_order_relaxed) > 0 ? Call() : void(); }

 private:
  struct Queue {
    std::mutex mutex;
    std::vector<MigrationSpace*> spaces;  // guarded by mutex
  };
  void Work(Queue& queue, EmulatedBus* emulated);
  void Call();

  std::vector<Queue> queues_;
  std::atomic<int> asleep_{0};           ///< threads
  std::atomic<std::uint32_t> calls_{0};  ///< what those wait for who are asleep
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace hmann
