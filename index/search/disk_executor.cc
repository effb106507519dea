#include "index/search/disk_executor.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Clock = StopCheck::Clock;

/// Blocks that a query keeps: 1.5 times what a pool needs for a recall of 0.95 on a
/// million SIFT vectors.
constexpr std::uint64_t kMostFrames = 1024;

/// Parts of a multi-start search that read side by side; the others follow.
std::uint32_t PartsAtOnce(const ResolvedParams& params) {
  return params.prefetch == Prefetch::kOff ? 1 : std::min(params.query_threads, kMaxGraphWidth);
}

}  // namespace

std::uint32_t DiskExecutor::MinFrames(const PlacedIndex& index, const ResolvedParams& params) {
  const std::uint32_t links = index.records.max_links;
  if (params.mode == SearchMode::kQuantized) return std::max(links, kMaxBeamWidth) + 2 * kUpcoming;
  const bool may_scan = params.mode == SearchMode::kScan || params.matches != nullptr;
  const std::uint32_t lists =
      params.mode == SearchMode::kMultiStart ? PartsAtOnce(params) : params.beam_width;
  return std::max(lists * links, may_scan ? kMaxBeamWidth : 0) + 2 * kUpcoming;
}

absl::Status DiskExecutor::Prepare(std::uint32_t in_flight, const ResolvedParams& params) {
  const std::uint32_t least = MinFrames(index_, params) + 8,
                      frame_bytes = index_.records.FrameBytes(index_.blocks->sector_bytes());
  const std::uint64_t share =
      std::min(kMostFrames, index_.read_buffer_bytes / frame_bytes / in_flight);
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

void DiskExecutor::Start(Slot& slot, const QueryBatch& batch, std::size_t which) {
  slot.frames.Clear();
  slot.reads.resize(batch.params.query_threads);
  for (Reads& reads : slot.reads) {
    reads.places.clear();
    reads.here = 0;
    reads.waited = false;
    reads.hops = 0;
  }
  slot.busy = true;
  slot.which = which;
  slot.cut = StopCheck::CutOf(batch.limits);
  slot.query.Exclude(batch.limits.excluded);
  slot.spare = MinFrames(index_, batch.params);
  // While cells are scored, the device would be idle if it reads for no other query.
  const bool idle = batch.in_flight <= 1 && batch.params.prefetch != Prefetch::kOff;
  slot.query.AnnounceReads(idle ? &slot : nullptr);
  absl::Status status = slot.query.Open(batch.query(which), batch.params, batch.ListsReads());
  if (!status.ok()) return Finish(slot, batch, status);
  Advance(slot, batch);
}

void DiskExecutor::Slot::Expect(std::span<const NodeId> ids) {
  frames.FetchTogether(ids, spare, true);
  for (const NodeId id : ids) frames.FetchAhead(id, spare);
  // The next wait for a read reports a device error.
  if (!queue->empty()) queue->Pump().IgnoreError();
}

template <Traversal W>
bool DiskExecutor::Fetch(Slot& slot, Reads& reads, const W& traversal,
                         const ResolvedParams& params) {
  const std::span<const NodeId> wanted = traversal.Wanted();
  const bool in_turn = params.prefetch == Prefetch::kOff;
  const bool is_new = reads.places.size() < wanted.size();
  if (is_new && !in_turn) slot.frames.FetchTogether(wanted.subspan(reads.places.size()), 0, false);
  while (reads.places.size() < wanted.size() && !(in_turn && slot.frames.pending() > 0)) {
    reads.places.push_back(slot.frames.Pin(wanted[reads.places.size()]));
  }
  if (is_new && !in_turn) {
    traversal.ForUpcoming(kUpcoming, [&](NodeId id) {
      // The links of an unpromoted candidate arrived with its vector.
      if (id < index_.n1()) slot.frames.FetchAhead(id, MinFrames(index_, params));
      return id < index_.n1();
    });
  }
  // Blocks that are here stay here, so they need no second check.
  while (reads.here < reads.places.size() && slot.frames.IsHere(reads.places[reads.here]))
    ++reads.here;
  return reads.here == wanted.size();
}

template <Traversal W>
bool DiskExecutor::Step(Slot& slot, Reads& reads, W& traversal, const ResolvedParams& params) {
  if (!Fetch(slot, reads, traversal, params)) {
    reads.hops += reads.waited && params.prefetch != Prefetch::kOff ? 0 : 1;
    reads.waited = true;
    return false;
  }
  const std::span<const NodeId> wanted = traversal.Wanted();
  slot.records.resize(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    slot.records[i] = slot.frames.Record(wanted[i], reads.places[i]);
  traversal.Absorb(slot.records);
  Release(slot, reads);
  return true;
}

bool DiskExecutor::StepTraversal(Slot& slot, const ResolvedParams& params) {
  const std::span<MultiStartTraversal> parts = slot.query.Parts();
  bool goes_on = false;
  if (parts.size() > 1) {
    std::uint32_t left = PartsAtOnce(params);
    for (std::size_t i = 0; i < parts.size() && left > 0; ++i) {
      if (parts[i].Done()) continue;
      --left;
      if (StillWaits(slot, slot.reads[i])) continue;
      while (!parts[i].Done() && Step(slot, slot.reads[i], parts[i], params)) goes_on = true;
    }
    const bool done =
        std::ranges::all_of(parts, [](const MultiStartTraversal& part) { return part.Done(); });
    if (done) slot.query.Next();
    return goes_on || done;
  }
  slot.query.Visit([&](auto& traversal) {
    goes_on = Step(slot, slot.reads[0], traversal, params);
    if (!goes_on) return;
    if constexpr (requires { traversal.HasNewCandidates(); }) {
      if (traversal.HasNewCandidates()) FetchAheadOfL0(slot, params);
    }
    if (traversal.Done()) slot.query.Next();
  });
  return goes_on;
}

void DiskExecutor::FetchAheadOfL0(Slot& slot, const ResolvedParams& params) {
  // With cells, few of L1's candidates have their links read. Fetching them ahead cost a
  // quantized query on 1M SIFT vectors 8 useless reads of 28.
  if (params.prefetch != Prefetch::kAhead ||
      (params.mode == SearchMode::kQuantized && (params.ef_l0 == 0 || params.nprobe > 0)))
    return;
  const Beam& found = slot.query.found();
  const std::uint32_t candidates = std::min({params.ef_l1, kUpcoming, found.size()});
  for (std::uint32_t i = 0; i < candidates; ++i)
    slot.frames.FetchAhead(found.id(i), MinFrames(index_, params));
  // The next wait for a read reports a device error.
  if (!queue_->empty()) queue_->Pump().IgnoreError();
}

bool DiskExecutor::StillWaits(const Slot& slot, const Reads& reads) {
  return reads.waited && !slot.frames.IsHere(reads.places[reads.here]);
}

void DiskExecutor::Release(Slot& slot, Reads& reads) {
  for (const std::uint32_t place : reads.places) slot.frames.Unpin(place);
  reads.places.clear();
  reads.here = 0;
  reads.waited = false;
}

void DiskExecutor::CutShort(Slot& slot) {
  if (!slot.query.CutShort([&slot](NodeId id) { return slot.frames.HasRecord(id); })) return;
  for (Reads& reads : slot.reads) Release(slot, reads);
}

void DiskExecutor::Advance(Slot& slot, const QueryBatch& batch) {
  StopCheck stop(batch.limits);
  if (absl::Status status = stop.Now(); !status.ok()) return Finish(slot, batch, status);
  while (!slot.query.Done()) {
    if (!StepTraversal(slot, batch.params)) return;
    if (absl::Status status = stop.Step(); !status.ok()) return Finish(slot, batch, status);
    if (slot.cut != Clock::time_point::max() && Clock::now() >= slot.cut) CutShort(slot);
  }
  Finish(slot, batch, absl::OkStatus());
}

void DiskExecutor::Finish(Slot& slot, const QueryBatch& batch, const absl::Status& status) {
  slot.busy = false;
  slot.query.Drop();
  slot.frames.Abandon();
  ++finished_;
  slot.query.TakeAnswer(&answer_);
  if (!status.ok()) answer_ = Answer();
  if (status.ok() && batch.counters != nullptr) {
    Counters counted = slot.query.TakeCounters(read_);
    counted.hops = std::ranges::max(slot.reads, {}, &Reads::hops)
                       .hops;  // steps that really waited: unlike a traversal's own count,
                               // which assumes that nothing was read ahead
    *batch.counters += counted;
    *batch.counters += slot.frames.counters();
  }
  batch.done(slot.which, status, answer_);
}

absl::Status DiskExecutor::WaitUntil(Clock::time_point until, const SearchLimits& limits) {
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
  if (reader_->InFlight() == 0) return Internal("the executor waits for nothing");
  if (Clock::now() - last_progress_ < kStallLimit) return absl::OkStatus();
  return Unavailable("the device has answered none of ", reader_->InFlight(), " reads for ",
                     kStallLimit.count(), " s");
}

absl::Status DiskExecutor::WaitForReads(const QueryBatch& batch) {
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
  // One pass for all reads that are done.
  for (const auto& slot : slots_) {
    if (std::exchange(slot->moved, false) && slot->busy &&
        (slot->frames.pending() == 0 || slot->query.Parts().size() > 1))
      Advance(*slot, batch);
  }
  return absl::OkStatus();
}

absl::Status DiskExecutor::Run(const QueryBatch& batch) {
  const std::uint32_t in_flight = std::clamp(batch.in_flight, 1u, kMostInFlight);
  HMANN_RETURN_IF_ERROR(Prepare(in_flight, batch.params));
  const auto slots = std::span(slots_).first(std::min<std::size_t>(in_flight, slots_.size()));
  const std::uint32_t least = MinFrames(index_, batch.params);
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
    // The device, the ring or the time limit failed: no query can continue.
    for (const auto& slot : slots) {
      if (slot->busy) Finish(*slot, batch, status);
    }
    for (answer_ = Answer(); next < batch.n; ++next, ++finished_) batch.done(next, status, answer_);
  }
  return absl::OkStatus();
}

template <typename Enough>
absl::Status DiskExecutor::WaitForFrames(const Enough& enough, const SearchLimits& limits) {
  absl::Status failed;
  while (!enough() && failed.ok()) {
    HMANN_RETURN_IF_ERROR(WaitUntil(Clock::time_point::max(), limits));
    for (const BlockDone& done : done_)
      failed.Update(slots_[BlockFrames::NumberOf(done.tag)]->frames.HandleDone(done));
  }
  return failed;
}

absl::Status DiskExecutor::Read(const RecordBatch& batch) {
  if (batch.ids.empty()) return absl::OkStatus();
  const std::uint32_t at_once = MinFrames(index_, ResolvedParams());
  HMANN_RETURN_IF_ERROR(Prepare(1, ResolvedParams()));
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
  batch.counters->node_accesses += batch.ids.size();
  *batch.counters += frames.counters();
  return status;
}

}  // namespace hmann
