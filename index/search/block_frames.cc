#include "index/search/block_frames.h"

#include <algorithm>
#include <span>

#include "index/base/check.h"

namespace hmann {

std::uint32_t BlockFrames::FrameBytes(const PlacedIndex& index) {
  return index.records.MostUnitBytes();
}

void BlockFrames::Clear() {
  generation_ = (generation_ + 1) & 0xffffffu;
  units_.Clear();
  for (const std::uint32_t place : taken_) {
    if (IsHere(place)) Free(place);
  }
  taken_.clear();
  clock_ = pending_ = 0;
  io_ = Counters();
}

void BlockFrames::Free(std::uint32_t place) {
  entries_[place] = Entry();
  free_.push_back(place);
}

std::uint32_t BlockFrames::Pin(NodeId id) {
  const std::uint32_t place = Acquire(id, false);
  HMANN_CHECK(place != IdMap::kAbsent);
  if (entries_[place].pins++ == 0 && !IsHere(place)) ++pending_;
  return place;
}

void BlockFrames::Unpin(std::uint32_t place) {
  if (--entries_[place].pins == 0 && !IsHere(place)) --pending_;
}

bool BlockFrames::HasRecord(NodeId id) const {
  const std::uint32_t place = units_.Find(UnitOf(id));
  return place != IdMap::kAbsent && IsHere(place);
}

const std::byte* BlockFrames::Record(NodeId id, std::uint32_t place) const {
  return reader_->Frame(first_frame_ + place) +
         (index_.records.Offset(id) - std::uint64_t{entries_[place].unit} * kBlockBytes);
}

void BlockFrames::FetchAhead(NodeId id, std::uint32_t spare) {
  if (free_.size() > spare) Acquire(id, true);
}

std::uint32_t BlockFrames::TakeFrame(bool ahead) {
  for (std::size_t tried = 0; free_.empty() && !ahead && tried < entries_.size();
       ++tried, ++clock_) {
    const auto place = static_cast<std::uint32_t>(clock_ % entries_.size());
    if (!IsHere(place) || entries_[place].pins > 0) continue;
    units_.Erase(entries_[place].unit);
    Free(place);
  }
  if (free_.empty()) return IdMap::kAbsent;
  taken_.push_back(free_.back());
  free_.pop_back();
  return taken_.back();
}

std::uint32_t BlockFrames::Acquire(NodeId id, bool ahead) {
  const std::uint32_t unit = UnitOf(id);
  std::uint32_t place = units_.Find(unit);
  if (place != IdMap::kAbsent) {
    Entry& entry = entries_[place];
    if (ahead || !entry.ahead) return place;
    entry.ahead = false;
    ++io_.migrated_used;
    if (entry.state == State::kUnderWay) {
      ++io_.migrated_late;
      queue_->MakeDemand(Tag(place));
    }
    return place;
  }
  place = TakeFrame(ahead);
  if (place == IdMap::kAbsent) return place;
  Entry& entry = entries_[place];
  entry = {.unit = unit,
           .bytes = index_.records.UnitBytes(id >= index_.n1()),
           .state = State::kUnderWay,
           .ahead = ahead};
  units_.Insert(unit, place);
  if (ReadCache(entry, reader_->Frame(first_frame_ + place))) {
    entry.state = State::kHere;
    entry.ahead = false;
    ++io_.cache_hits;
    return place;
  }
  queue_->Push({std::uint64_t{unit} * kBlockBytes, entry.bytes, first_frame_ + place, Tag(place)},
               ahead);
  ++under_way_;
  ++io_.io_reads;
  io_.io_bytes += entry.bytes;
  io_.migrated += ahead ? 1 : 0;
  return place;
}

bool BlockFrames::ReadCache(const Entry& entry, std::byte* frame) const {
  if (index_.cache == nullptr) return false;
  for (std::uint32_t at = 0; at < entry.bytes; at += kBlockBytes) {
    if (!index_.cache->Read(entry.unit + at / kBlockBytes, 0, std::span(frame + at, kBlockBytes)))
      return false;
  }
  return true;
}

void BlockFrames::OfferToCache(const Entry& entry, const std::byte* frame) const {
  if (index_.cache == nullptr) return;
  for (std::uint32_t at = 0; at < entry.bytes; at += kBlockBytes)
    index_.cache->Offer(entry.unit + at / kBlockBytes, frame + at);
}

absl::Status BlockFrames::HandleDone(const BlockDone& done) {
  const auto place = static_cast<std::uint32_t>(done.tag & 0xffffffu);
  Entry& entry = entries_[place];
  const bool is_ours = (done.tag >> 24 & 0xffffffu) == generation_,
             is_wanted = is_ours && entry.pins > 0;
  --under_way_;
  if (is_wanted) --pending_;
  if (is_ours && done.status.ok()) {
    entry.state = State::kHere;
    OfferToCache(entry, reader_->Frame(first_frame_ + place));
    return absl::OkStatus();
  }
  if (is_ours) units_.Erase(entry.unit);
  Free(place);
  return is_wanted ? done.status : absl::OkStatus();
}

void BlockFrames::Abandon() {
  queue_->Remove([this](std::uint64_t tag) {
    if (tag >> 24 != Tag(0) >> 24) return false;
    const auto place = static_cast<std::uint32_t>(tag & 0xffffffu);
    --io_.io_reads;
    io_.io_bytes -= entries_[place].bytes;
    io_.migrated -= entries_[place].ahead ? 1 : 0;
    --under_way_;
    Free(place);
    return true;
  });
}

}  // namespace hmann
