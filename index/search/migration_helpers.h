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
/// memory, copied ahead by a helper thread. The searcher posts ids, nearest first. It
/// uses a record once its copy is complete, and otherwise reads it from slow memory.
/// Neither side waits.
///
/// Thread safety: one searcher (Begin, Post, Find) and one helper (CopyOne).
class MigrationSpace {
 public:
  /// The maximum number of posts per query.
  static constexpr std::uint32_t kSlots = 512;
  /// Bytes of a space for records of `index`.
  static std::uint64_t Bytes(const PlacedIndex& index);

  explicit MigrationSpace(const PlacedIndex& index);

  /// Starts a query: forgets what was posted and copied before.
  void Begin();
  /// Requests a copy of the record; false when the space is full or `id` was posted
  /// before.
  bool Post(NodeId id);
  /// The copy of a posted record; nullptr while it is not complete.
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
  std::atomic<std::uint64_t> copied_{0};  ///< posts that the helper has handled
  std::atomic<std::uint64_t> first_{
      0};        ///< first post of the current query; older ones need no copy
  IdMap posts_;  ///< id to post number - first
};

/// Threads that copy for the searchers of an index. They spin while a search runs and
/// sleep when none does.
class MigrationHelpers {
 public:
  /// `threads`: at least 1. `emulated`: the bus of an emulated slow tier, whose latency
  /// the helpers also wait for; else nullptr.
  MigrationHelpers(int threads, EmulatedBus* emulated);
  ~MigrationHelpers();
  MigrationHelpers(const MigrationHelpers&) = delete;

  /// Registers a searcher's space with the helper that has the fewest; Remove unregisters
  /// it.
  void Add(MigrationSpace* space);
  void Remove(MigrationSpace* space);
  int threads() const { return static_cast<int>(queues_.size()); }
  /// The number of spaces registered now.
  std::size_t spaces();
  /// A search begins, so its helper should be awake.
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
  std::atomic<std::uint32_t> calls_{0};  ///< sleeping threads wait for it to change
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace hmann
