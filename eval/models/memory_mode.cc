#include "eval/models/memory_mode.h"

#include "index/base/check.h"

namespace hmann {

MemoryAccesses operator-(const MemoryAccesses& a, const MemoryAccesses& b) {
  return {a.dram_reads - b.dram_reads, a.dram_writes - b.dram_writes, a.slow_reads - b.slow_reads,
          a.slow_writes - b.slow_writes};
}

void MemoryModeCache::Insert(Slot victim) {
  if (victim.dirty) ++accesses_.slow_writes;  // its data came along when the tag was read
  ++accesses_.slow_reads;
  ++accesses_.dram_writes;
}

bool MemoryModeCache::CountRead(Slot slot) {
  hits_ += slot.hit ? 1 : 0;
  ++accesses_.dram_reads;  // tag and data at once
  if (!slot.hit) Insert(slot);
  return slot.hit && slot.dirty;
}

bool MemoryModeCache::CountWrite(Slot slot) {
  hits_ += slot.hit ? 1 : 0;
  ++accesses_.dram_reads;  // the tag
  if (!slot.hit) Insert(slot);
  ++accesses_.dram_writes;
  return true;
}

bool MemoryModeCache::CountWriteBack() {
  ++hits_;
  ++accesses_.dram_writes;
  return true;
}

DirectMappedCache::DirectMappedCache(std::uint64_t lines) : entries_(lines) {
  HMANN_CHECK(lines > 0);
}

bool DirectMappedCache::Read(std::uint64_t line) {
  Entry& entry = EntryOf(line);
  const bool hit = entry.line == line;
  entry.dirty = CountRead({hit, entry.dirty});
  entry.line = line;
  return hit;
}

bool DirectMappedCache::Write(std::uint64_t line) {
  Entry& entry = EntryOf(line);
  const bool hit = entry.line == line;
  entry.dirty = CountWrite({hit, entry.dirty});
  entry.line = line;
  return hit;
}

bool DirectMappedCache::WriteBack(std::uint64_t line) {
  Entry& entry = EntryOf(line);
  if (entry.line != line) return Write(line);
  entry.dirty = CountWriteBack();
  return true;
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

LruCache::Entry& LruCache::Bring(std::uint64_t line, Slot* found) {
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
  return entries_[entry];
}

bool LruCache::Read(std::uint64_t line) {
  Slot found;
  Entry& entry = Bring(line, &found);
  entry.dirty = CountRead(found);
  return found.hit;
}

bool LruCache::Write(std::uint64_t line) {
  Slot found;
  Entry& entry = Bring(line, &found);
  entry.dirty = CountWrite(found);
  return found.hit;
}

bool LruCache::WriteBack(std::uint64_t line) {
  if (entry_of_[line] == kNone) return Write(line);
  Slot found;
  Entry& entry = Bring(line, &found);
  entry.dirty = CountWriteBack();
  return true;
}

}  // namespace hmann
