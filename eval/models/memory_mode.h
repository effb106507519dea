/// DRAM as the hardware's cache for slow memory ("Memory Mode"), as models that consume a
/// trace of line addresses. Source: Hildebrand, dissertation, ch. 2 (table 2.2). The
/// cache is direct-mapped by physical address, has lines of 64 bytes, and keeps tags next
/// to the data. Every miss inserts its line, for reads and writes alike.
#pragma once

#include <cstdint>
#include <vector>

namespace hmann::eval {

/// 64-byte accesses that requests cause behind the CPU's caches.
struct MemoryAccesses {
  std::uint64_t dram_reads = 0;
  std::uint64_t dram_writes = 0;
  std::uint64_t node_reads = 0;
  std::uint64_t slow_writes = 0;

  std::uint64_t Sum() const { return dram_reads + dram_writes + node_reads + slow_writes; }
  bool operator==(const MemoryAccesses&) const = default;
};
MemoryAccesses operator-(const MemoryAccesses& a, const MemoryAccesses& b);

/// What both models do with a request once they know whether its line is cached. Not
/// thread-safe.
class MemoryModeCache {
 public:
  virtual ~MemoryModeCache() = default;

  /// Requests a 64-byte line by its number. Both return whether it was in DRAM.
  bool Read(std::uint64_t line);
  /// A store that bypasses the CPU's caches, or the eviction of a line that was not read
  /// from here.
  bool Write(std::uint64_t line);
  /// The CPU's caches evict a line that a Read brought there. It is known to be in DRAM,
  /// so no tag is checked. If DRAM has evicted it since, it is written like any other
  /// line.
  bool WriteBack(std::uint64_t line);

  const MemoryAccesses& accesses() const { return accesses_; }
  std::uint64_t hits() const { return hits_; }

 protected:
  /// The cached line, or the line that must be evicted for it.
  struct Slot {
    bool hit = false;
    bool dirty = false;
  };
  /// Inserts the line if it is not cached. `found` receives what was there before.
  /// Returns a pointer to the line's dirty bit.
  virtual bool* Bring(std::uint64_t line, Slot* found) = 0;
  virtual bool Holds(std::uint64_t line) const = 0;

 private:
  void CountTag(Slot found);

  MemoryAccesses accesses_;
  std::uint64_t hits_ = 0;
};

/// The hardware's cache: line L can only be at L modulo the number of lines. Starts
/// empty, which counts as clean.
class DirectMappedCache : public MemoryModeCache {
 public:
  /// `lines`: capacity C; at least 1.
  explicit DirectMappedCache(std::uint64_t lines);

 private:
  struct Entry {
    std::uint64_t line = ~std::uint64_t{0};
    bool dirty = false;
  };
  bool* Bring(std::uint64_t line, Slot* found) override;
  bool Holds(std::uint64_t line) const override {
    return entries_[line % entries_.size()].line == line;
  }

  std::vector<Entry> entries_;
};

/// The paper's reading: fully associative, evicting the least recently used line. The
/// counts per request are the same as in the other model.
class LruCache : public MemoryModeCache {
 public:
  /// `lines`: capacity C, at least 1. `footprint`: lines are numbered 0 .. footprint - 1,
  /// at 4 bytes each.
  LruCache(std::uint64_t lines, std::uint64_t footprint);

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Entry {
    std::uint64_t line = 0;
    std::uint32_t newer = kNone, older = kNone;
    bool dirty = false;
  };
  /// Also makes the line the newest.
  bool* Bring(std::uint64_t line, Slot* found) override;
  bool Holds(std::uint64_t line) const override { return entry_of_[line] != kNone; }
  void Unlink(std::uint32_t entry);
  void LinkNewest(std::uint32_t entry);

  std::vector<std::uint32_t> entry_of_;  ///< by line
  std::vector<Entry> entries_;
  std::uint32_t used_ = 0, newest_ = kNone, oldest_ = kNone;
};

}  // namespace hmann::eval
