#include "index/search/block_frames.h"

#include <algorithm>
#include <span>

#include "index/base/check.h"

namespace hmann {

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

void BlockFrames::EraseUnits(std::uint32_t place) {
  for (std::uint32_t unit = entries_[place].unit; unit <= entries_[place].last; ++unit) {
    if (units_.Find(unit) == place) units_.Erase(unit);
  }
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
  const std::uint32_t place = units_.Find(index_.records.UnitOf(id));
  return place != IdMap::kAbsent && IsHere(place);
}

const std::byte* BlockFrames::Record(NodeId id, std::uint32_t place) const {
  return reader_->Frame(first_frame_ + place) + (index_.records.Offset(id) - entries_[place].begin);
}

void BlockFrames::FetchAhead(NodeId id, std::uint32_t spare) {
  if (free_.size() > spare) Acquire(id, true);
}

void BlockFrames::FetchTogether(std::span<const NodeId> ids, std::uint32_t spare, bool ahead) {
  const std::uint32_t most = reader_->options().frame_bytes - index_.records.regions[1].slack;
  if (index_.cache != nullptr || 2 * index_.records.UnitBytes(true) > most) return;
  absent_.clear();
  for (const NodeId id : ids) {
    const std::uint32_t unit = index_.records.UnitOf(id);
    if (units_.Find(unit) == IdMap::kAbsent) absent_.push_back(unit);
  }
  if (free_.size() <= absent_.size() + spare) return;
  std::sort(absent_.begin(), absent_.end());
  absent_.erase(std::unique(absent_.begin(), absent_.end()), absent_.end());
  for (std::size_t first = 0, next = 0; first < absent_.size(); first = next) {
    for (next = first + 1;
         next < absent_.size() && ExtentOf(absent_[first], absent_[next]).bytes <= most;)
      ++next;
    Start(absent_[first], absent_[next - 1], ahead);
  }
}

std::uint32_t BlockFrames::TakeFrame(bool ahead) {
  for (std::size_t tried = 0; free_.empty() && !ahead && tried < entries_.size();
       ++tried, ++clock_) {
    const auto place = static_cast<std::uint32_t>(clock_ % entries_.size());
    if (!IsHere(place) || entries_[place].pins > 0) continue;
    EraseUnits(place);
    Free(place);
  }
  if (free_.empty()) return IdMap::kAbsent;
  taken_.push_back(free_.back());
  free_.pop_back();
  return taken_.back();
}

std::uint32_t BlockFrames::Acquire(NodeId id, bool ahead) {
  const std::uint32_t unit = index_.records.UnitOf(id);
  std::uint32_t place = units_.Find(unit);
  if (place != IdMap::kAbsent) {
    Entry& entry = entries_[place];
    if (ahead || !entry.ahead) return place;
    entry.ahead = false;
    ++io_.fetched_ahead_used;
    if (entry.state == State::kUnderWay) {
      ++io_.fetched_ahead_late;
      queue_->MakeDemand(Tag(place));
    }
    return place;
  }
  return Start(unit, unit, ahead);
}

RecordLayout::Extent BlockFrames::ExtentOf(std::uint32_t unit, std::uint32_t last) const {
  RecordLayout::Extent extent = index_.records.ExtentOf(unit);
  const auto [begin, bytes] = index_.records.ExtentOf(last);
  extent.bytes = begin + bytes - extent.begin;
  return extent.Aligned(index_.blocks->sector_bytes());
}

std::uint32_t BlockFrames::Start(std::uint32_t unit, std::uint32_t last, bool ahead) {
  const std::uint32_t place = TakeFrame(ahead);
  if (place == IdMap::kAbsent) return place;
  Entry& entry = entries_[place];
  const auto [begin, bytes] = ExtentOf(unit, last);
  entry = {.unit = unit,
           .last = last,
           .bytes = static_cast<std::uint32_t>(bytes),
           .begin = begin,
           .state = State::kUnderWay,
           .ahead = ahead};
  for (std::uint32_t each = unit; each <= last; ++each) {
    if (units_.Find(each) == IdMap::kAbsent) units_.Insert(each, place);
  }
  if (ReadCache(entry, reader_->Frame(first_frame_ + place))) {
    entry.state = State::kHere;
    entry.ahead = false;
    ++io_.cache_hits;
    return place;
  }
  queue_->Push({begin, entry.bytes, first_frame_ + place, Tag(place)}, ahead);
  ++under_way_;
  ++io_.io_reads;
  io_.io_bytes += entry.bytes;
  io_.fetched_ahead += ahead ? 1 : 0;
  return place;
}

bool BlockFrames::ReadCache(Entry& entry, std::byte* frame) const {
  if (index_.cache == nullptr) return false;
  const auto [begin, bytes] = index_.records.ExtentOf(entry.unit);
  if (!index_.cache->Read(entry.unit, 0, std::span(frame, bytes))) return false;
  entry.begin = begin;
  return true;
}

void BlockFrames::OfferToCache(const Entry& entry, const std::byte* frame) const {
  if (index_.cache == nullptr || !index_.cache->Wants(entry.unit)) return;
  index_.cache->Offer(entry.unit,
                      frame + (index_.records.ExtentOf(entry.unit).begin - entry.begin));
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
  if (is_ours) EraseUnits(place);
  Free(place);
  return is_wanted ? done.status : absl::OkStatus();
}

void BlockFrames::Abandon() {
  queue_->Remove([this](std::uint64_t tag) {
    if (tag >> 24 != Tag(0) >> 24) return false;
    const auto place = static_cast<std::uint32_t>(tag & 0xffffffu);
    --io_.io_reads;
    io_.io_bytes -= entries_[place].bytes;
    io_.fetched_ahead -= entries_[place].ahead ? 1 : 0;
    --under_way_;
    Free(place);
    return true;
  });
}

}  // namespace hmann
