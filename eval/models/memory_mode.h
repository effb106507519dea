/// DRAM as the hardware's cache before slow memory ("Memory Mode"), as models that are
/// fed a trace of line addresses. Source: Hildebrand, dissertation, ch. 2 (table 2.2):
/// direct-mapped by physical address, lines of 64 bytes, tags beside the data, a line is
/// inserted on every miss, reads and writes alike.
#pragma once

#include <cstdint>
#include <vector>

namespace hmann::eval {

/// Accesses of 64 bytes that requests cause behind the CPU's caches.
struct MemoryAccesses {
  std::uint64_t dram_reads = 0;
  std::uint64_t dram_writes = 0;
  std::uint64_t slow_reads = 0;
  std::uint64_t slow_writes = 0;

  std::uint64_t Sum() const { return dram_reads + dram_writes + slow_reads + slow_writes; }
  bool operator==(const MemoryAccesses&) const = default;
};
MemoryAccesses operator-(const MemoryAccesses& a, const MemoryAccesses& b);

/// What both models do with a request once they know whether its line is there. Not
/// thread-safe.
class MemoryModeCache {
 public:
  virtual ~MemoryModeCache() = default;

  /// Requests of a 64-byte line by its number. They return whether it was in DRAM.
  bool Read(std::uint64_t line);
  /// A store that goes past the CPU's caches, or a line that leaves them without having
  /// been read from here.
  bool Write(std::uint64_t line);
  /// A line leaves the CPU's caches that a Read brought there: known to be in DRAM, so
  /// that no tag is checked. One that has been pushed out since is written like any
  /// other.
  bool WriteBack(std::uint64_t line);

  const MemoryAccesses& accesses() const { return accesses_; }
  std::uint64_t hits() const { return hits_; }

 protected:
  /// A line that is there, or the one that has to go for it.
  struct Slot {
    bool hit = false;
    bool dirty = false;
  };
  /// Gives the line its place if it has none. `found`: what was there before. Returns
  /// where the line's dirty bit is.
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

/// The reading of the paper: fully associative, the least recently used line goes. The
/// counts per request are those of the other.
class LruCache : public MemoryModeCache {
 public:
  /// `lines`: capacity C, at least 1. `footprint`: lines are numbered 0 .. footprint - 1;
  /// 4 bytes each.
  LruCache(std::uint64_t lines, std::uint64_t footprint);

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Entry {
    std::uint64_t line = 0;
    std::uint32_t newer = kNone, older = kNone;
    bool dirty = false;
  };
  /// Makes the line the newest as well.
  bool* Bring(std::uint64_t line, Slot* found) override;
  bool Holds(std::uint64_t line) const override { return entry_of_[line] != kNone; }
  void Unlink(std::uint32_t entry);
  void LinkNewest(std::uint32_t entry);

  std::vector<std::uint32_t> entry_of_;  ///< by line
  std::vector<Entry> entries_;
  std::uint32_t used_ = 0, newest_ = kNone, oldest_ = kNone;
};

}  // namespace hmann::eval
