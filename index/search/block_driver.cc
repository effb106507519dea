#include "index/search/block_driver.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Clock = StopCheck::Clock;

/// Blocks that a query keeps: as many as a pool needs for a recall of 0.95 on a million
/// SIFT vectors, and half as many again.
constexpr std::uint64_t kMostFrames = 1024;

bool FetchesAhead(const Dials& dials) {
  return dials.prefetch == Prefetch::kAhead || dials.prefetch == Prefetch::kHelper;
}

}  // namespace

std::uint32_t BlockDriver::MinFrames(const PlacedIndex& index, const Dials& dials) {
  const std::uint32_t links = index.records.max_links;
  if (dials.walk == WalkKind::kQuantised) return std::max(links, kMaxBeamWidth) + 2 * kUpcoming;
  return (dials.walk == WalkKind::kMultiStart ? static_cast<std::uint32_t>(kBeamsAtOnce)
                                              : dials.beam_width) *
             links +
         2 * kUpcoming;
}

absl::Status BlockDriver::Prepare(std::uint32_t in_flight, const Dials& dials) {
  const std::uint32_t least = MinFrames(index_, dials) + 8,
                      frame_bytes = BlockFrames::FrameBytes(index_);
  const std::uint64_t share =
      std::min(kMostFrames, index_.migration_bytes / frame_bytes / in_flight);
  const std::uint32_t frames = std::max(least, static_cast<std::uint32_t>(share));
  if (slots_.size() >= in_flight && reader_->options().frames / slots_.size() >= least)
    return absl::OkStatus();
  slots_.clear();
  queue_.reset();
  reader_.reset();
  HMANN_ASSIGN_OR_RETURN(
      reader_, index_.blocks->NewReader(
                   {.depth = 32, .frames = frames * in_flight, .frame_bytes = frame_bytes}));
  queue_ = std::make_unique<BlockQueue>(reader_.get());
  for (std::uint32_t i = 0; i < in_flight; ++i) {
    slots_.push_back(std::make_unique<Slot>(index_, reader_.get(), queue_.get(), i, frames));
  }
  return absl::OkStatus();
}

void BlockDriver::Start(Slot& slot, const QueryBatch& batch, std::size_t which) {
  slot.frames.Clear();
  for (Reads& reads : slot.reads) {
    reads.places.clear();
    reads.here = 0;
    reads.waited = false;
    reads.rounds = 0;
  }
  slot.busy = true;
  slot.which = which;
  slot.cut = StopCheck::CutOf(batch.limits);
  slot.query.Exclude(batch.limits.excluded);
  slot.spare = MinFrames(index_, batch.dials);
  // While cells are scored the device would be idle, if it reads for nobody else.
  const bool idle = batch.in_flight <= 1 && batch.dials.prefetch != Prefetch::kOff;
  slot.query.TellAhead(idle ? &slot : nullptr);
  // Beams that waited for each other's slowest read would leave the device idle: each
  // goes on by itself.
  const std::uint32_t parts = batch.dials.prefetch == Prefetch::kOff ? 1 : kBeamsAtOnce;
  absl::Status status = slot.query.Open(batch.query(which), batch.dials, batch.counters != nullptr,
                                        parts, parts > 1 ? 1 : 0);
  if (!status.ok()) return Finish(slot, batch, status);
  Advance(slot, batch);
}

void BlockDriver::Slot::Expect(std::span<const NodeId> ids) {
  std::uint32_t rank = 0;
  for (const NodeId id : ids) frames.FetchAhead(id, rank++, spare);
  // An error of the device is found by whoever waits for it.
  if (!queue->empty()) queue->Pump().IgnoreError();
}

template <Walk W>
bool BlockDriver::Fetch(Slot& slot, Reads& reads, const W& walk, const Dials& dials) {
  const std::span<const NodeId> wanted = walk.Wanted();
  const bool in_turn = dials.prefetch == Prefetch::kOff;
  const bool is_new = reads.places.size() < wanted.size();
  while (reads.places.size() < wanted.size() && !(in_turn && slot.frames.pending() > 0)) {
    reads.places.push_back(slot.frames.Pin(wanted[reads.places.size()]));
  }
  if (is_new && !in_turn) {
    std::uint32_t rank = 0;
    walk.ForUpcoming(kUpcoming, [&](NodeId id) {
      // The links of an unpromoted candidate have come with its vector.
      if (id < index_.n1()) slot.frames.FetchAhead(id, rank++, MinFrames(index_, dials));
      return id < index_.n1();
    });
  }
  // What was here stays, so that nobody looks twice.
  while (reads.here < reads.places.size() && slot.frames.IsHere(reads.places[reads.here]))
    ++reads.here;
  return reads.here == wanted.size();
}

template <Walk W>
bool BlockDriver::Step(Slot& slot, Reads& reads, W& walk, const Dials& dials) {
  if (!Fetch(slot, reads, walk, dials)) {
    reads.rounds += reads.waited && dials.prefetch != Prefetch::kOff ? 0 : 1;
    reads.waited = true;
    return false;
  }
  const std::span<const NodeId> wanted = walk.Wanted();
  slot.records.resize(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    slot.records[i] = slot.frames.Record(wanted[i], reads.places[i]);
  walk.Absorb(slot.records);
  Release(slot, reads);
  return true;
}

bool BlockDriver::StepWalk(Slot& slot, const Dials& dials) {
  const std::span<MultiStartWalk> parts = slot.query.Parts();
  bool goes_on = false;
  if (parts.size() > 1) {
    bool done = true;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (StillWaits(slot, slot.reads[i])) {
        done = false;
        continue;
      }
      while (!parts[i].Done() && Step(slot, slot.reads[i], parts[i], dials)) goes_on = true;
      done = done && parts[i].Done();
    }
    if (done) slot.query.Next();
    return goes_on || done;
  }
  slot.query.Visit([&](auto& walk) {
    goes_on = Step(slot, slot.reads[0], walk, dials);
    if (!goes_on) return;
    if constexpr (requires { walk.HasNewCandidates(); }) {
      if (walk.HasNewCandidates()) FetchAheadOfL0(slot, dials);
    }
    if (walk.Done()) slot.query.Next();
  });
  return goes_on;
}

void BlockDriver::FetchAheadOfL0(Slot& slot, const Dials& dials) {
  // With cells few of L1's candidates have their links read: fetching them ahead cost a
  // quantised query on 1M SIFT vectors 8 useless reads of 28.
  if (!FetchesAhead(dials) ||
      (dials.walk == WalkKind::kQuantised && (dials.ef_l0 == 0 || dials.nprobe > 0)))
    return;
  const Beam& found = slot.query.found();
  const std::uint32_t candidates = std::min({dials.ef_l1, kUpcoming, found.size()});
  for (std::uint32_t i = 0; i < candidates; ++i)
    slot.frames.FetchAhead(found.id(i), i, MinFrames(index_, dials));
  // An error of the device is found by whoever waits for it.
  if (!queue_->empty()) queue_->Pump().IgnoreError();
}

bool BlockDriver::StillWaits(const Slot& slot, const Reads& reads) {
  return reads.waited && !slot.frames.IsHere(reads.places[reads.here]);
}

void BlockDriver::Release(Slot& slot, Reads& reads) {
  for (const std::uint32_t place : reads.places) slot.frames.Unpin(place);
  reads.places.clear();
  reads.here = 0;
  reads.waited = false;
}

void BlockDriver::CutShort(Slot& slot) {
  if (!slot.query.CutShort([&slot](NodeId id) { return slot.frames.HasRecord(id); })) return;
  for (Reads& reads : slot.reads) Release(slot, reads);
}

void BlockDriver::Advance(Slot& slot, const QueryBatch& batch) {
  StopCheck stop(batch.limits);
  if (absl::Status status = stop.Now(); !status.ok()) return Finish(slot, batch, status);
  while (!slot.query.Done()) {
    if (!StepWalk(slot, batch.dials)) return;
    if (absl::Status status = stop.Step(); !status.ok()) return Finish(slot, batch, status);
    if (slot.cut != Clock::time_point::max() && Clock::now() >= slot.cut) CutShort(slot);
  }
  Finish(slot, batch, absl::OkStatus());
}

void BlockDriver::Finish(Slot& slot, const QueryBatch& batch, const absl::Status& status) {
  slot.busy = false;
  slot.query.Drop();
  slot.frames.Abandon();
  ++finished_;
  slot.query.TakeAnswer(&answer_);
  if (!status.ok()) answer_ = Answer();
  if (status.ok() && batch.counters != nullptr) {
    Counters counted = slot.query.TakeCounters(read_);
    counted.rounds = std::ranges::max(slot.reads, {}, &Reads::rounds)
                         .rounds;  // what the walk counts is what would have to wait where nothing
                                   // is read before
    *batch.counters += counted;
    *batch.counters += slot.frames.counters();
  }
  batch.done(slot.which, status, answer_);
}

absl::Status BlockDriver::WaitUntil(Clock::time_point until, const SearchLimits& limits) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(5);
  HMANN_RETURN_IF_ERROR(queue_->Pump());
  until = std::min({until, limits.deadline, last_progress_ + kStallLimit});
  if (limits.cancelled != nullptr) until = std::min(until, Clock::now() + kBetweenLooks);
  done_.clear();
  HMANN_RETURN_IF_ERROR(reader_->Wait(until, &done_));
  if (!done_.empty()) {
    last_progress_ = Clock::now();
    for (const BlockDone& done : done_) queue_->NoteDone(done.tag);
    return absl::OkStatus();
  }
  HMANN_RETURN_IF_ERROR(StopCheck(limits).Now());
  if (reader_->InFlight() == 0) return Internal("the driver waits for nothing");
  if (Clock::now() - last_progress_ < kStallLimit) return absl::OkStatus();
  return Unavailable("the device has answered none of ", reader_->InFlight(), " reads for ",
                     kStallLimit.count(), " s");
}

absl::Status BlockDriver::WaitForReads(const QueryBatch& batch) {
  auto until = Clock::time_point::max();
  const auto now = Clock::now();
  for (const auto& slot : slots_) {
    if (slot->busy && slot->cut > now) until = std::min(until, slot->cut);
  }
  HMANN_RETURN_IF_ERROR(WaitUntil(until, batch.limits));
  for (const BlockDone& done : done_) {
    Slot& slot = *slots_[BlockFrames::NumberOf(done.tag)];
    const bool waited = slot.frames.pending() > 0;
    const absl::Status status = slot.frames.HandleDone(done);
    if (!slot.busy || !waited) continue;
    slot.moved = true;
    if (!status.ok()) Finish(slot, batch, status);
  }
  // Once for all reads that were done meanwhile.
  for (const auto& slot : slots_) {
    if (std::exchange(slot->moved, false) && slot->busy &&
        (slot->frames.pending() == 0 || slot->query.Parts().size() > 1))
      Advance(*slot, batch);
  }
  return absl::OkStatus();
}

absl::Status BlockDriver::Run(const QueryBatch& batch) {
  const std::uint32_t in_flight = std::clamp(batch.in_flight, 1u, kMostInFlight);
  HMANN_RETURN_IF_ERROR(Prepare(in_flight, batch.dials));
  const auto slots = std::span(slots_).first(std::min<std::size_t>(in_flight, slots_.size()));
  const std::uint32_t least = MinFrames(index_, batch.dials);
  std::size_t next = 0;
  finished_ = 0;
  last_progress_ = Clock::now();
  while (finished_ < batch.n) {
    absl::Status status;
    for (const auto& slot : slots) {
      while (next < batch.n && !slot->busy && slot->frames.Usable() >= least)
        Start(*slot, batch, next++);
      if (slots.size() > 1) status.Update(queue_->Pump());
    }
    if (finished_ == batch.n) break;
    status.Update(WaitForReads(batch));
    for (const auto& slot : slots) {
      if (!slot->busy || slot->cut > Clock::now()) continue;
      CutShort(*slot);
      Advance(*slot, batch);
    }
    if (status.ok()) continue;
    // The device, the ring or the time: no query can go on.
    for (const auto& slot : slots) {
      if (slot->busy) Finish(*slot, batch, status);
    }
    for (answer_ = Answer(); next < batch.n; ++next, ++finished_) batch.done(next, status, answer_);
  }
  return absl::OkStatus();
}

template <typename Enough>
absl::Status BlockDriver::WaitForFrames(const Enough& enough, const SearchLimits& limits) {
  absl::Status failed;
  while (!enough() && failed.ok()) {
    HMANN_RETURN_IF_ERROR(WaitUntil(Clock::time_point::max(), limits));
    for (const BlockDone& done : done_)
      failed.Update(slots_[BlockFrames::NumberOf(done.tag)]->frames.HandleDone(done));
  }
  return failed;
}

absl::Status BlockDriver::Read(const RecordBatch& batch) {
  if (batch.ids.empty()) return absl::OkStatus();
  const std::uint32_t at_once = MinFrames(index_, Dials());
  HMANN_RETURN_IF_ERROR(Prepare(1, Dials()));
  HMANN_RETURN_IF_ERROR(StopCheck(batch.limits).Now());
  BlockFrames& frames = slots_[0]->frames;
  frames.Clear();
  last_progress_ = Clock::now();
  absl::Status status = WaitForFrames([&] { return frames.Usable() >= at_once; }, batch.limits);
  std::vector<std::uint32_t> places;
  for (std::size_t begin = 0; begin < batch.ids.size() && status.ok(); begin += places.size()) {
    places.clear();
    while (places.size() < at_once && begin + places.size() < batch.ids.size())
      places.push_back(frames.Pin(batch.ids[begin + places.size()]));
    status = WaitForFrames([&] { return frames.pending() == 0; }, batch.limits);
    if (!status.ok()) break;
    for (std::size_t i = 0; i < places.size(); ++i) {
      batch.done(begin + i, frames.Record(batch.ids[begin + i], places[i]));
      frames.Unpin(places[i]);
    }
  }
  frames.Abandon();
  if (batch.counters == nullptr) return status;
  batch.counters->slow_touches += batch.ids.size();
  *batch.counters += frames.counters();
  return status;
}

}  // namespace hmann
