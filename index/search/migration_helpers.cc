#include "index/search/migration_helpers.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "index/search/placed_index.h"

namespace hmann {

std::uint64_t MigrationSpace::Bytes(const PlacedIndex& index) {
  return std::uint64_t{kSlots} * index.records.MostUnitBytes();
}

MigrationSpace::MigrationSpace(const PlacedIndex& index)
    : index_(index),
      record_bytes_(index.records.MostUnitBytes()),
      slots_(kSlots),
      bytes_(Bytes(index)) {}

void MigrationSpace::Begin() {
  posts_.Clear();
  first_.store(posted_.load(std::memory_order_relaxed), std::memory_order_release);
}

bool MigrationSpace::Post(NodeId id) {
  const std::uint64_t post = posted_.load(std::memory_order_relaxed),
                      first = first_.load(std::memory_order_relaxed);
  // A slot is free when it belongs to no post of this query and the helper has left it.
  if (post - first >= kSlots || post - copied_.load(std::memory_order_acquire) >= kSlots)
    return false;
  if (posts_.Find(id) != IdMap::kAbsent) return false;
  posts_.Insert(id, static_cast<std::uint32_t>(post - first));
  slots_[post % kSlots].id = id;
  posted_.store(post + 1, std::memory_order_release);
  return true;
}

const std::byte* MigrationSpace::Find(NodeId id) const {
  const std::uint32_t place = posts_.Find(id);
  if (place == IdMap::kAbsent) return nullptr;
  const std::uint64_t post = first_.load(std::memory_order_relaxed) + place;
  if (slots_[post % kSlots].done.load(std::memory_order_acquire) != post + 1) return nullptr;
  return bytes_.data() + post % kSlots * record_bytes_;
}

bool MigrationSpace::CopyOne(SlowMemory& memory) {
  const std::uint64_t post = copied_.load(std::memory_order_relaxed);
  if (post == posted_.load(std::memory_order_acquire)) return false;
  Slot& slot = slots_[post % kSlots];
  if (post >= first_.load(std::memory_order_acquire)) {
    const std::byte* record = index_.Record(slot.id);
    std::byte* copy = bytes_.data() + post % kSlots * record_bytes_;
    index_.ForBytes(slot.id, RecordPart::kRecord, [&](std::span<const std::byte> bytes) {
      memory.Use(bytes);
      std::copy(bytes.begin(), bytes.end(), copy + (bytes.data() - record));
    });
    slot.done.store(post + 1, std::memory_order_release);
  }
  copied_.store(post + 1, std::memory_order_release);
  return true;
}

MigrationHelpers::MigrationHelpers(int threads, EmulatedBus* emulated)
    : queues_(static_cast<std::size_t>(threads)) {
  for (Queue& queue : queues_)
    threads_.emplace_back([this, &queue, emulated] { Work(queue, emulated); });
}

MigrationHelpers::~MigrationHelpers() {
  stop_ = true;
  Call();
  for (std::thread& thread : threads_) thread.join();
}

void MigrationHelpers::Add(MigrationSpace* space) {
  Queue* least = nullptr;
  std::size_t fewest = ~std::size_t{0};
  for (Queue& queue : queues_) {
    const std::lock_guard lock(queue.mutex);
    if (queue.spaces.size() >= fewest) continue;
    fewest = queue.spaces.size();
    least = &queue;
  }
  const std::lock_guard lock(least->mutex);
  least->spaces.push_back(space);
}

void MigrationHelpers::Remove(MigrationSpace* space) {
  for (Queue& queue : queues_) {
    const std::lock_guard lock(queue.mutex);
    std::erase(queue.spaces, space);
  }
}

std::size_t MigrationHelpers::spaces() {
  std::size_t sum = 0;
  for (Queue& queue : queues_) {
    const std::lock_guard lock(queue.mutex);
    sum += queue.spaces.size();
  }
  return sum;
}

void MigrationHelpers::Call() {
  ++calls_;
  calls_.notify_all();
}

void MigrationHelpers::Work(Queue& queue, EmulatedBus* emulated) {
  constexpr auto kSpin = std::chrono::microseconds(200);
  SlowMemory memory(emulated);
  std::uint32_t seen = 0;
  for (auto idle_since = std::chrono::steady_clock::now();;) {
    bool worked = false;
    {
      const std::lock_guard lock(queue.mutex);
      for (MigrationSpace* space : queue.spaces) worked |= space->CopyOne(memory);
    }
    const auto now = std::chrono::steady_clock::now();
    if (worked) idle_since = now;
    if (now - idle_since < kSpin) continue;
    ++asleep_;
    calls_.wait(seen);
    --asleep_;
    seen = calls_;
    if (stop_) return;  // after `seen`: the last call comes after it
    memory.Begin();
    idle_since = std::chrono::steady_clock::now();
  }
}

}  // namespace hmann
