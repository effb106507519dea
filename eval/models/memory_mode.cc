#include "eval/models/memory_mode.h"

#include "index/base/check.h"

namespace hmann::eval {

MemoryAccesses operator-(const MemoryAccesses& a, const MemoryAccesses& b) {
  return {a.dram_reads - b.dram_reads, a.dram_writes - b.dram_writes, a.node_reads - b.node_reads,
          a.slow_writes - b.slow_writes};
}

void MemoryModeCache::CountTag(Slot found) {
  ++accesses_.dram_reads;  // for a read, together with its data
  hits_ += found.hit ? 1 : 0;
  if (found.hit) return;
  if (found.dirty) ++accesses_.slow_writes;  // its data was fetched with the tag
  ++accesses_.node_reads;
  ++accesses_.dram_writes;
}

bool MemoryModeCache::Read(std::uint64_t line) {
  Slot found;
  bool* dirty = Bring(line, &found);
  CountTag(found);
  *dirty = found.hit && found.dirty;
  return found.hit;
}

bool MemoryModeCache::Write(std::uint64_t line) {
  Slot found;
  bool* dirty = Bring(line, &found);
  CountTag(found);
  ++accesses_.dram_writes;
  *dirty = true;
  return found.hit;
}

bool MemoryModeCache::WriteBack(std::uint64_t line) {
  if (!Holds(line)) return Write(line);
  Slot found;
  *Bring(line, &found) = true;
  ++hits_;
  ++accesses_.dram_writes;
  return true;
}

DirectMappedCache::DirectMappedCache(std::uint64_t lines) : entries_(lines) {
  HMANN_CHECK(lines > 0);
}

bool* DirectMappedCache::Bring(std::uint64_t line, Slot* found) {
  Entry& entry = entries_[line % entries_.size()];
  *found = {entry.line == line, entry.dirty};
  entry.line = line;
  return &entry.dirty;
}

LruCache::LruCache(std::uint64_t lines, std::uint64_t footprint)
    : entry_of_(footprint, kNone), entries_(lines) {
  HMANN_CHECK(lines > 0 && lines < kNone);
}

void LruCache::Unlink(std::uint32_t entry) {
  const Entry& e = entries_[entry];
  (e.newer == kNone ? newest_ : entries_[e.newer].older) = e.older;
  (e.older == kNone ? oldest_ : entries_[e.older].newer) = e.newer;
}

void LruCache::LinkNewest(std::uint32_t entry) {
  entries_[entry].newer = kNone;
  entries_[entry].older = newest_;
  (newest_ == kNone ? oldest_ : entries_[newest_].newer) = entry;
  newest_ = entry;
}

bool* LruCache::Bring(std::uint64_t line, Slot* found) {
  HMANN_CHECK(line < entry_of_.size());
  std::uint32_t entry = entry_of_[line];
  found->hit = entry != kNone;
  if (found->hit) {
    found->dirty = entries_[entry].dirty;
    Unlink(entry);
  } else if (used_ < entries_.size()) {
    entry = used_++;
  } else {
    entry = oldest_;
    found->dirty = entries_[entry].dirty;
    entry_of_[entries_[entry].line] = kNone;
    Unlink(entry);
  }
  LinkNewest(entry);
  entry_of_[line] = entry;
  entries_[entry].line = line;
  return &entries_[entry].dirty;
}

}  // namespace hmann::eval
