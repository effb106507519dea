#include "index/search/access.h"

#include <algorithm>

#include "index/search/multi_start_walk.h"

namespace hmann {

ManagedAccess::ManagedAccess(const PlacedIndex& index)
    : index_(index),
      record_bytes_(index.MostRecordBytes()),
      copied_(std::max<std::size_t>(kBeamsAtOnce * index.records.max_links, kMaxWidth)) {
  if (index.emulated != nullptr) lines_.emplace(index.emulated);
  if (index.cache != nullptr) copies_.resize(copied_.size() * record_bytes_);
}

ManagedAccess::~ManagedAccess() {
  if (space_.has_value()) index_.helpers->Remove(&*space_);
}

void ManagedAccess::Begin(Prefetch prefetch) {
  prefetch_ = prefetch == Prefetch::kHelper && index_.helpers == nullptr ? Prefetch::kAhead : prefetch;
  if (lines_.has_value()) lines_->Clear();
  counts_ = Counters();
  ahead_bytes_ = 0;
  ahead_.Clear();
  followed_.Clear();
  used_.Clear();
  if (prefetch_ != Prefetch::kHelper) return;
  if (!space_.has_value()) index_.helpers->Add(&space_.emplace(index_));
  space_->Begin();
  index_.helpers->Wake();
}

void ManagedAccess::Fetch(std::span<const std::byte> bytes) {
  PrefetchLines(bytes.data(), bytes.size());
  if (lines_.has_value()) lines_->Fetch(bytes.data(), bytes.size());
}

const std::byte* ManagedAccess::Ask(NodeId id, RecordPart part, std::size_t slot) {
  if (ahead_.size() > 0 && part != RecordPart::kLabel) NoteUse(id, part);
  copied_[slot] = 1;
  if (index_.cache != nullptr) {
    std::byte* buffer = copies_.data() + slot * record_bytes_;
    if (ReadCache(id, part, buffer)) {
      ++counts_.cache_hits;
      return buffer;
    }
  }
  if (prefetch_ == Prefetch::kHelper) {
    if (const std::byte* copy = space_->Find(id); copy != nullptr) return copy;
  }
  copied_[slot] = 0;
  if (prefetch_ != Prefetch::kOff) Fetch(Bytes(id, part));
  return index_.Record(id);
}

void ManagedAccess::Hint(NodeId id) {
  if (prefetch_ != Prefetch::kOff) Fetch(Bytes(id, RecordPart::kLinks));
}

void ManagedAccess::Await(std::span<const NodeId> ids, RecordPart part, std::size_t first_slot) {
  const bool offer = index_.cache != nullptr && index_.cache->policy() == CachePolicy::kDynamic;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (copied_[first_slot + i] != 0) continue;
    const std::span<const std::byte> bytes = Bytes(ids[i], part);
    if (lines_.has_value()) lines_->Use(bytes.data(), bytes.size());
    if (!offer) continue;
    const std::span<const std::byte> record(index_.Record(ids[i]), index_.records.RecordBytes(ids[i]));
    if (lines_.has_value()) lines_->Use(record.data(), record.size());
    index_.cache->Offer(ids[i], record.data());
  }
}

void ManagedAccess::AddCounts(Counters& counters) const { counters += counts_; }

bool ManagedAccess::ReadCache(NodeId id, RecordPart part, std::byte* buffer) {
  const RecordExtent extent = index_.Extent(id, part);
  return index_.cache->Read(id, extent.offset, std::span(buffer + extent.offset, extent.bytes));
}

void ManagedAccess::NoteUse(NodeId id, RecordPart part) {
  const bool fetched = ahead_.Contains(AheadKey(id, part));
  if (!fetched || !used_.Insert(AheadKey(id, part))) return;
  ++counts_.migrated_used;
  if (prefetch_ == Prefetch::kHelper) {
    counts_.migrated_late += space_->Find(id) == nullptr ? 1 : 0;
  } else if (lines_.has_value()) {
    const std::span<const std::byte> bytes = Bytes(id, part);
    counts_.migrated_late += lines_->Arrived(bytes.data(), bytes.size()) ? 0 : 1;
  }
}

bool ManagedAccess::FetchAhead(NodeId id, RecordPart part) {
  const std::span<const std::byte> bytes = Bytes(id, part);
  if (ahead_bytes_ + bytes.size() > kAheadBytes) return false;
  if (prefetch_ == Prefetch::kHelper) {
    if (!ahead_.Contains(AheadKey(id, part)) && !space_->Post(id)) return false;
  } else {
    if (lines_.has_value() && !lines_->HasRoom()) return false;
  }
  if (!ahead_.Insert(AheadKey(id, part))) return true;
  if (prefetch_ != Prefetch::kHelper) Fetch(bytes);
  ++counts_.migrated;
  ahead_bytes_ += bytes.size();
  return true;
}

const NodeId* ManagedAccess::LinksIfHere(NodeId id) {
  if (!ahead_.Contains(AheadKey(id, RecordPart::kLinks))) return nullptr;
  if (prefetch_ == Prefetch::kHelper) {
    const std::byte* copy = space_->Find(id);
    return copy == nullptr ? nullptr : index_.Links(id, copy);
  }
  const std::span<const std::byte> bytes = Bytes(id, RecordPart::kLinks);
  // On real memory nobody can tell; a step of L1 later they are probably here.
  if (lines_.has_value() && !lines_->Arrived(bytes.data(), bytes.size())) return nullptr;
  return reinterpret_cast<const NodeId*>(bytes.data());
}

void ManagedAccess::Stepped(const Beam& beam, std::uint32_t window) {
  if (prefetch_ != Prefetch::kAhead && prefetch_ != Prefetch::kHelper) return;
  const std::uint32_t looked_at = std::min({window, kAheadWindow, beam.size()});
  for (std::uint32_t i = 0; i < looked_at; ++i) {
    const NodeId candidate = beam.id(i);
    if (followed_.Contains(candidate)) continue;
    const NodeId* links = LinksIfHere(candidate);
    if (links == nullptr) {
      if (!FetchAhead(candidate, RecordPart::kLinks)) return;
      continue;
    }
    if (i > 0) continue;  // rows are dear: the nearest candidate's alone
    for (std::uint32_t l = 0; l < index_.records.max_links && links[l] < index_.layers.n(); ++l) {
      if (links[l] >= index_.n1() && !FetchAhead(links[l], RecordPart::kRow)) return;
    }
    followed_.Insert(candidate);
  }
}

}  // namespace hmann
