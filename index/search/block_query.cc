#include "index/search/block_query.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "index/base/check.h"
#include "index/search/l0_walks.h"
#include "index/search/upper_search.h"

namespace hmann {
namespace {

std::uint32_t ReadBytes(const RecordLayout& records, bool full) {
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(kBlockBytes, records.regions[full].stride));
}

}  // namespace

BlockQuery::BlockQuery(const PlacedIndex& index, BlockReader* reader, BlockQueue* queue, std::uint32_t number, std::uint32_t first_frame,
                       std::uint32_t frames)
    : index_(index),
      reader_(reader),
      queue_(queue),
      number_(number),
      first_frame_(first_frame),
      entries_(frames),
      query_(index.kernels.row_bytes),
      records_(std::max(kMaxPoolWidth * index.records.max_links, kMaxWidth)) {
  for (Lane& lane : lanes_) lane.entries.resize(records_.size());
}

std::uint32_t BlockQuery::MinFrames(const PlacedIndex& index, const Dials& dials) {
  const std::uint32_t links = index.records.max_links;
  if (dials.walk == WalkKind::kGated) return std::max(links, kMaxWidth) + 2 * kUpcoming;
  return (dials.walk == WalkKind::kBeams ? static_cast<std::uint32_t>(kWalksInFlight) : dials.width) * links + 2 * kUpcoming;
}

std::uint32_t BlockQuery::FrameBytes(const PlacedIndex& index) {
  return std::max(ReadBytes(index.records, false), ReadBytes(index.records, true));
}

bool BlockQuery::CanStart(const Dials& dials) const {
  if (busy()) return false;
  const auto held = std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.state == State::kUnderWay; });
  return entries_.size() - static_cast<std::size_t>(held) >= MinFrames(index_, dials);
}

void BlockQuery::Begin() {
  generation_ = (generation_ + 1) & 0xffffffu;
  units_.Clear();
  free_.clear();
  for (std::uint32_t e = static_cast<std::uint32_t>(entries_.size()); e-- > 0;) {
    if (entries_[e].state == State::kUnderWay) continue;
    entries_[e] = Entry();
    free_.push_back(e);
  }
  clock_ = 0;
  counters_.Clear(true);
  io_ = Counters();
  status_ = absl::OkStatus();
  active_ = 0;
  next_beam_ = beams_ = 0;
  label_ids_.clear();
  labels_.clear();
  labels_read_ = 0;
}

void BlockQuery::Start(std::size_t which, const void* query, const Dials& dials, const SearchLimits& limits) {
  Begin();
  which_ = which;
  dials_ = dials;
  limits_ = &limits;
  cut_ = StopCheck::CutOf(limits);
  cut_short_ = false;
  stop_.emplace(limits, cut_);
  phase_ = Phase::kWalks;
  absl::Status status = EncodeRow(index_.kernels, query, query_.data());
  if (status.ok()) status = stop_->Now();
  Ahead ahead{this};
  if (status.ok() && index_.n1() > 0) {
    status = SearchUpperLayers(index_, query_.data(), dials_, scratch_, counters_, ahead, *stop_);
  } else {
    scratch_.beam.Reset(dials_.ef_l0);
  }
  if (!status.ok()) return Finish(std::move(status));
  if (!stop_->spent()) return OpenWalks();
  phase_ = Phase::kRest;
  CutShort();
}

void BlockQuery::OpenWalks() {
  if (dials_.walk == WalkKind::kGated) {
    gated_.Open(index_, query_.data(), dials_, scratch_, counters_);
    active_ = 1;
    return Advance(lanes_[0]);
  }
  if (dials_.ef_l0 == 0 || index_.n1() == 0) return NextPhase();
  if (dials_.walk != WalkKind::kBeams) {
    OpenPoolWalk(index_, query_.data(), dials_, scratch_, counters_, lanes_[0].walk);
    active_ = 1;
    return Advance(lanes_[0]);
  }
  results_.Reset(dials_.k);
  beams_ = std::min(dials_.ef_l1, scratch_.beam.size());
  active_ = std::min(beams_, static_cast<std::uint32_t>(lanes_.size()));
  // A query may end while its lanes are opened (an error in the first): then there is nothing left to open.
  const std::uint32_t generation = generation_, lanes = active_;
  for (std::uint32_t i = 0; i < lanes && phase_ == Phase::kWalks && generation == generation_; ++i) {
    if (NextWalk(lanes_[i])) {
      Advance(lanes_[i]);
    } else if (--active_ == 0) {
      NextPhase();
    }
  }
}

bool BlockQuery::NextWalk(Lane& lane) {
  if (phase_ != Phase::kWalks || next_beam_ >= beams_) return false;
  OpenBeamWalk(index_, query_.data(), dials_, scratch_.beam, next_beam_++, lane.scratch, results_, counters_, lane.walk);
  return true;
}

std::span<const NodeId> BlockQuery::Wanted(const Lane& lane) const {
  if (gated()) return gated_.Wanted();
  if (phase_ != Phase::kLabels) return lane.walk.Wanted();
  return std::span(label_ids_).subspan(labels_read_, std::min<std::size_t>(label_ids_.size() - labels_read_, index_.records.max_links));
}

std::uint32_t BlockQuery::TakeFrame(bool ahead) {
  if (free_.empty() && !ahead) {
    for (std::size_t tried = 0; tried < entries_.size(); ++tried, ++clock_) {
      const auto e = static_cast<std::uint32_t>(clock_ % entries_.size());
      if (entries_[e].state != State::kHere || entries_[e].pins > 0) continue;
      units_.Erase(entries_[e].unit);
      free_.push_back(e);
      ++clock_;
      break;
    }
  }
  if (free_.empty()) return IdMap::kAbsent;
  const std::uint32_t e = free_.back();
  free_.pop_back();
  return e;
}

std::uint32_t BlockQuery::Acquire(NodeId id, bool ahead, std::uint32_t rank) {
  const std::uint32_t unit = UnitOf(index_, id);
  std::uint32_t e = units_.Find(unit);
  if (e != IdMap::kAbsent) {
    Entry& entry = entries_[e];
    if (ahead || !entry.ahead) return e;
    entry.ahead = false;
    ++io_.migrated_used;
    if (entry.state == State::kUnderWay) {
      ++io_.migrated_late;
      queue_->MakeDemand(Tag(e), BlockQueue::Clock::now());
    }
    return e;
  }
  e = TakeFrame(ahead);
  if (e == IdMap::kAbsent) return e;
  entries_[e] = {.unit = unit, .bytes = ReadBytes(index_.records, id >= index_.n1()), .state = State::kUnderWay, .ahead = ahead};
  units_.Insert(unit, e);
  Entry& entry = entries_[e];
  if (ReadCache(entry, reader_->Frame(first_frame_ + e))) {
    entry.state = State::kHere;
    entry.ahead = false;
    ++io_.cache_hits;
    return e;
  }
  // Candidate number `rank` is expanded about so many reads from now: the latest safe times of a query are in the order of the ranks.
  constexpr auto kReadTime = std::chrono::microseconds(100);
  queue_->Push(
      {{std::uint64_t{unit} * kBlockBytes, entry.bytes, first_frame_ + e, Tag(e)}, ahead, BlockQueue::Clock::now() + rank * kReadTime});
  ++io_.io_reads;
  io_.io_bytes += entry.bytes;
  io_.migrated += ahead ? 1 : 0;
  return e;
}

bool BlockQuery::ReadCache(const Entry& entry, std::byte* frame) {
  if (index_.cache == nullptr) return false;
  for (std::uint32_t at = 0; at < entry.bytes; at += kBlockBytes) {
    if (!index_.cache->Read(entry.unit + at / kBlockBytes, 0, std::span(frame + at, kBlockBytes))) return false;
  }
  return true;
}

void BlockQuery::OfferToCache(const Entry& entry, const std::byte* frame) {
  if (index_.cache == nullptr) return;
  for (std::uint32_t at = 0; at < entry.bytes; at += kBlockBytes) index_.cache->Offer(entry.unit + at / kBlockBytes, frame + at);
}

void BlockQuery::FetchAhead(NodeId id, std::uint32_t rank) {
  // Frames that a step may need are not given to what may be useless.
  if (free_.size() > MinFrames(index_, dials_)) Acquire(id, true, rank);
}

void BlockQuery::Ahead::Stepped(const Beam& beam, std::uint32_t window) {
  if (query->dials_.prefetch != Prefetch::kAhead && query->dials_.prefetch != Prefetch::kHelper) return;
  // With cells few of L1's candidates have their links read: fetching them ahead cost a gated query on 1M SIFT vectors 8 useless reads
  // of 28.
  if (query->dials_.walk == WalkKind::kGated && (query->dials_.ef_l0 == 0 || query->dials_.cells > 0)) return;
  const std::uint32_t candidates = std::min({window, kUpcoming, beam.size()});
  for (std::uint32_t i = 0; i < candidates; ++i) query->FetchAhead(beam.id(i), i);
  // An error of the device is found by whoever waits for it.
  if (!query->queue_->empty()) query->queue_->Pump().IgnoreError();
}

void BlockQuery::AskFor(Lane& lane) {
  const std::span<const NodeId> wanted = Wanted(lane);
  const auto bit = 1u << (&lane - lanes_.data());
  for (; lane.asked < wanted.size(); ++lane.asked) {
    if (dials_.prefetch == Prefetch::kOff && lane.pending > 0) return;
    const std::uint32_t e = Acquire(wanted[lane.asked], false, 0);
    HMANN_CHECK(e != IdMap::kAbsent);  // MinFrames
    lane.entries[lane.asked] = e;
    Entry& entry = entries_[e];
    ++entry.pins;
    if (entry.state == State::kHere || (entry.waiters & bit) != 0) continue;
    entry.waiters |= bit;
    ++lane.pending;
  }
  if (dials_.prefetch == Prefetch::kOff || phase_ == Phase::kLabels) return;
  if (gated()) return;
  std::uint32_t rank = 0;
  lane.walk.ForUpcomingLinks(kUpcoming, [&](NodeId id) { FetchAhead(id, rank++); });
}

const std::byte* BlockQuery::Record(NodeId id, std::uint32_t entry) const {
  return reader_->Frame(first_frame_ + entry) + (index_.records.Offset(id) - std::uint64_t{entries_[entry].unit} * kBlockBytes);
}

void BlockQuery::Absorb(Lane& lane) {
  const std::span<const NodeId> wanted = Wanted(lane);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    records_[i] = Record(wanted[i], lane.entries[i]);
    --entries_[lane.entries[i]].pins;
  }
  lane.asked = 0;
  lane.waited = false;
  if (phase_ == Phase::kLabels) {
    for (std::size_t i = 0; i < wanted.size(); ++i) labels_.push_back(index_.SlowLabel(records_[i]));
    labels_read_ += wanted.size();
  } else if (gated()) {
    gated_.Absorb({records_.data(), wanted.size()});
  } else {
    lane.walk.Absorb({records_.data(), wanted.size()});
  }
}

void BlockQuery::Advance(Lane& lane) {
  for (;;) {
    const bool over = phase_ == Phase::kLabels ? labels_read_ == label_ids_.size() : gated() ? gated_.Done() : lane.walk.Done();
    if (over && !NextWalk(lane)) {
      if (--active_ == 0) NextPhase();
      return;
    }
    AskFor(lane);
    if (lane.pending > 0) {
      io_.rounds += lane.waited && dials_.prefetch != Prefetch::kOff ? 0 : 1;
      lane.waited = true;
      return;
    }
    Absorb(lane);
    if (absl::Status status = cut_ == StopCheck::TimePoint::max() ? stop_->Step() : stop_->Look(); !status.ok()) {
      return Finish(std::move(status));
    }
    if (stop_->spent() && CutShort()) return;
  }
}

void BlockQuery::NextPhase() {
  Beam& beam = scratch_.beam;
  if (phase_ == Phase::kWalks) {
    if (gated()) TakeResults(gated_.results(), dials_.k, beam);
    if (beams_ > 0) TakeResults(results_, dials_.k, beam);
    phase_ = Phase::kRest;
    if (beam.size() < dials_.k) {
      OpenRestWalk(index_, query_.data(), dials_, scratch_, counters_, lanes_[0].walk);
      active_ = 1;
      return Advance(lanes_[0]);
    }
  }
  if (phase_ == Phase::kRest) {
    phase_ = Phase::kLabels;
    for (std::uint32_t i = 0; i < std::min(dials_.k, beam.size()); ++i) {
      if (beam.id(i) >= index_.n1()) label_ids_.push_back(beam.id(i));
    }
    active_ = 1;
    return Advance(lanes_[0]);
  }
  Finish(absl::OkStatus());
}

void BlockQuery::HandleDone(const BlockDone& done) {
  const auto e = static_cast<std::uint32_t>(done.tag & 0xffffffu);
  Entry& entry = entries_[e];
  if ((done.tag >> 24 & 0xffffffu) != generation_ || !busy()) {
    entry = Entry();
    free_.push_back(e);
    return;
  }
  if (!done.status.ok()) {
    units_.Erase(entry.unit);
    const bool wanted = entry.waiters != 0;
    entry = Entry();
    free_.push_back(e);
    if (wanted) Finish(done.status);
    return;
  }
  entry.state = State::kHere;
  OfferToCache(entry, reader_->Frame(first_frame_ + e));
  const std::uint32_t generation = generation_;
  const bool cut_short = cut_short_;
  for (std::uint32_t waiters = std::exchange(entry.waiters, 0);
       waiters != 0 && generation == generation_ && cut_short == cut_short_ && busy(); waiters &= waiters - 1) {
    Lane& lane = lanes_[static_cast<std::size_t>(std::countr_zero(waiters))];
    if (--lane.pending == 0) Advance(lane);
  }
}

bool BlockQuery::IsHere(NodeId id) const {
  const std::uint32_t e = units_.Find(UnitOf(index_, id));
  return e != IdMap::kAbsent && entries_[e].state == State::kHere;
}

void BlockQuery::Release(Lane& lane) {
  const auto bit = 1u << (&lane - lanes_.data());
  for (std::uint32_t i = 0; i < lane.asked; ++i) {
    --entries_[lane.entries[i]].pins;
    entries_[lane.entries[i]].waiters &= ~bit;
  }
  lane.asked = lane.pending = 0;
  lane.waited = false;
}

bool BlockQuery::CutShort() {
  if (phase_ != Phase::kWalks && phase_ != Phase::kRest) return false;
  const bool walks = phase_ == Phase::kWalks;
  const Beam& found = gated() ? gated_.results() : walks && beams_ > 0 ? results_ : scratch_.beam;
  Beam kept;
  kept.Reset(dials_.k);
  // A label lies in its record: what would have to be read again for it is left out.
  const auto keep = [&](const Beam& from, std::uint32_t i) {
    if (from.id(i) < index_.n1() || IsHere(from.id(i))) kept.InsertUnique(from.key(i), from.id(i));
  };
  for (std::uint32_t i = 0; i < found.size(); ++i) keep(found, i);
  for (std::uint32_t i = walks ? next_beam_ : beams_; i < beams_; ++i) keep(scratch_.beam, i);
  if (kept.size() == 0) return false;
  for (Lane& lane : lanes_) Release(lane);
  TakeResults(kept, dials_.k, scratch_.beam);
  cut_short_ = true;
  phase_ = Phase::kRest;
  NextPhase();
  return true;
}

void BlockQuery::Finish(absl::Status status) {
  status_ = std::move(status);
  phase_ = Phase::kFinished;
  // What still waits for its turn is not read; what is under way keeps its frame until it is done.
  queue_->Remove([&](std::uint64_t tag) {
    if (tag >> 24 != Tag(0) >> 24) return false;
    const auto e = static_cast<std::uint32_t>(tag & 0xffffffu);
    --io_.io_reads;
    io_.io_bytes -= entries_[e].bytes;
    io_.migrated -= entries_[e].ahead ? 1 : 0;
    entries_[e] = Entry();
    return true;
  });
  for (Lane& lane : lanes_) {
    lane.asked = lane.pending = 0;
    lane.waited = false;
  }
}

absl::Status BlockQuery::TakeAnswer(std::size_t* which, Answer* out, Counters* counters) {
  phase_ = Phase::kIdle;
  *which = which_;
  out->nearest.clear();
  out->cut_short = cut_short_;
  if (!status_.ok()) return status_;
  const Beam& beam = scratch_.beam;
  out->nearest.resize(std::min(dials_.k, beam.size()));
  std::size_t slow = 0;
  for (std::uint32_t i = 0; i < out->nearest.size(); ++i) {
    const NodeId id = beam.id(i);
    out->nearest[i] = {id < index_.n1() ? index_.FastLabel(id) : labels_[slow++], index_.kernels.ToDistance(beam.key(i))};
  }
  if (counters == nullptr) return absl::OkStatus();
  CountDistinct(index_, counters_, distinct_);
  counters_.total.rounds = 0;  // what the walk counts is what would have to wait where nothing is read before
  *counters += counters_.total;
  *counters += io_;
  return absl::OkStatus();
}

}  // namespace hmann
