#include "index/search/block_runner.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Clock = std::chrono::steady_clock;

/// Blocks that a query keeps: as many as a pool needs for a recall of 0.95 on a million SIFT vectors, and half as many again.
constexpr std::uint64_t kMostFrames = 1024;

}  // namespace

absl::Status BlockRunner::Prepare(std::uint32_t in_flight, const Dials& dials) {
  const std::uint32_t least = BlockQuery::MinFrames(index_, dials) + 8, frame_bytes = BlockQuery::FrameBytes(index_);
  const std::uint64_t share = std::min(kMostFrames, index_.migration_bytes / frame_bytes / in_flight);
  const std::uint32_t frames = std::max(least, static_cast<std::uint32_t>(share));
  if (slots_.size() >= in_flight && reader_->options().frames / slots_.size() >= least) return absl::OkStatus();
  slots_.clear();
  queue_.reset();
  reader_.reset();
  HMANN_ASSIGN_OR_RETURN(reader_, index_.blocks->NewReader({.depth = 32, .frames = frames * in_flight, .frame_bytes = frame_bytes}));
  queue_ = std::make_unique<BlockQueue>(reader_.get());
  for (std::uint32_t i = 0; i < in_flight; ++i) {
    slots_.push_back(std::make_unique<BlockQuery>(index_, reader_.get(), queue_.get(), i, i * frames, frames));
  }
  return absl::OkStatus();
}

absl::Status BlockRunner::WaitForReads(const SearchLimits& limits, Clock::time_point* last_progress) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(5);
  HMANN_RETURN_IF_ERROR(queue_->Pump());
  const auto now = Clock::now();
  auto until = std::min(limits.deadline, *last_progress + kStallLimit);
  if (limits.cancelled != nullptr) until = std::min(until, now + kBetweenLooks);
  for (const auto& slot : slots_) {
    if (slot->busy() && slot->cut() > now) until = std::min(until, slot->cut());
  }
  done_.clear();
  HMANN_RETURN_IF_ERROR(reader_->Wait(until, &done_));
  if (!done_.empty()) {
    *last_progress = Clock::now();
    for (const BlockDone& done : done_) {
      queue_->NoteDone(done.tag);
      slots_[BlockQuery::NumberOf(done.tag)]->HandleDone(done);
    }
    return absl::OkStatus();
  }
  HMANN_RETURN_IF_ERROR(StopCheck(limits).Now());
  if (reader_->InFlight() == 0) return absl::InternalError("the ring driver waits for nothing");
  if (Clock::now() - *last_progress < kStallLimit) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the device has answered none of ", reader_->InFlight(), " reads for ", kStallLimit.count(), " s"));
}

absl::Status BlockRunner::SearchMany(std::size_t n, const std::function<const void*(std::size_t)>& query, const Dials& dials,
                                     std::uint32_t in_flight, const std::function<void(std::size_t, const absl::Status&, Answer&)>& done,
                                     Counters* counters, const SearchLimits& limits) {
  in_flight = std::clamp(in_flight, 1u, kMostInFlight);
  HMANN_RETURN_IF_ERROR(Prepare(in_flight, dials));
  Answer answer;
  std::size_t next = 0, finished = 0;
  auto last_progress = Clock::now();
  const auto deliver = [&](BlockQuery& slot) {
    if (!slot.finished()) return;
    std::size_t which = 0;
    const absl::Status status = slot.TakeAnswer(&which, &answer, counters);
    ++finished;
    done(which, status, answer);
  };
  const std::span<const std::unique_ptr<BlockQuery>> slots = std::span(slots_).first(std::min<std::size_t>(in_flight, slots_.size()));
  while (finished < n) {
    absl::Status status;
    for (const auto& slot : slots) {
      deliver(*slot);
      if (next == n || !slot->CanStart(dials)) continue;
      slot->Start(next, query(next), dials, limits);
      ++next;
      if (slots.size() > 1) status.Update(queue_->Pump());
    }
    if (finished == n) break;
    if (std::any_of(slots.begin(), slots.end(), [](const auto& slot) { return slot->finished(); })) continue;
    status.Update(WaitForReads(limits, &last_progress));
    if (limits.budget.count() > 0) {
      for (const auto& slot : slots) {
        if (slot->busy() && Clock::now() >= slot->cut()) slot->CutShort();
      }
    }
    if (status.ok()) continue;
    // The device, the ring or the time: no query can go on.
    for (const auto& slot : slots) {
      if (slot->busy()) slot->Fail(status);
      deliver(*slot);
    }
    for (; next < n; ++next, ++finished) {
      answer = Answer();
      done(next, status, answer);
    }
  }
  return absl::OkStatus();
}

}  // namespace hmann
