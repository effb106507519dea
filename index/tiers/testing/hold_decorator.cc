/// Decorators that deliver reads late, or never.
#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/testing/decorator.h"

namespace hmann {
namespace {

using Clock = std::chrono::steady_clock;

/// When a read that begins now may be delivered.
using Schedule = std::function<Clock::time_point()>;

class HoldingReader : public DecoratedReader {
 public:
  HoldingReader(std::unique_ptr<BlockReader> inner, Schedule schedule)
      : DecoratedReader(std::move(inner)),
        schedule_(std::move(schedule)),
        due_(options().frames, kIdle) {}

  std::uint32_t InFlight() const override {
    return inner().InFlight() + static_cast<std::uint32_t>(held_.size());
  }

  absl::StatusOr<std::size_t> Submit(std::span<const BlockRead> reads) override {
    const std::span<const BlockRead> fitting =
        reads.first(std::min<std::size_t>(reads.size(), options().depth - InFlight()));
    for (const BlockRead& read : fitting) {
      if (read.frame >= due_.size() || due_[read.frame] == kIdle) continue;
      return InvalidArgument("frame ", read.frame, ": a read into it is in flight");
    }
    HMANN_ASSIGN_OR_RETURN(const std::size_t taken, inner().Submit(fitting));
    for (const BlockRead& read : fitting.first(taken)) due_[read.frame] = schedule_();
    return taken;
  }

  absl::Status Wait(Clock::time_point deadline, std::vector<BlockDone>* done) override {
    while (InFlight() > 0) {
      HMANN_RETURN_IF_ERROR(inner().Wait(Clock::time_point::min(), &held_));
      const auto now = Clock::now();
      if (HandOver(now, done) || now >= deadline) break;
      auto until = std::min(deadline, now + std::chrono::hours(1));
      for (const BlockDone& one : held_) until = std::min(until, due_[one.frame]);
      if (inner().InFlight() > 0) {
        HMANN_RETURN_IF_ERROR(inner().Wait(until, &held_));
      } else {
        std::this_thread::sleep_until(until);
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr Clock::time_point kIdle = Clock::time_point::min();

  bool HandOver(Clock::time_point now, std::vector<BlockDone>* done) {
    const auto ripe = std::stable_partition(
        held_.begin(), held_.end(), [&](const BlockDone& one) { return due_[one.frame] > now; });
    std::stable_sort(ripe, held_.end(), [&](const BlockDone& a, const BlockDone& b) {
      return due_[a.frame] < due_[b.frame];
    });
    const bool any = ripe != held_.end();
    for (auto one = ripe; one != held_.end(); ++one) {
      due_[one->frame] = kIdle;
      done->push_back(std::move(*one));
    }
    held_.erase(ripe, held_.end());
    return any;
  }

  Schedule schedule_;
  std::vector<Clock::time_point> due_;  ///< by frame, of the read in flight; kIdle: none
  std::vector<BlockDone> held_;
};

class Holder : public Decorator {
 public:
  Holder(Schedule schedule, std::string note)
      : schedule_(std::move(schedule)), note_(std::move(note)) {}

  std::unique_ptr<BlockReader> Wrap(std::unique_ptr<BlockReader> inner, std::weak_ptr<const void>,
                                    std::uint64_t) override {
    return std::make_unique<HoldingReader>(std::move(inner), schedule_);
  }
  std::string Note() const override { return note_; }

 private:
  Schedule schedule_;
  std::string note_;
};

}  // namespace

std::unique_ptr<Decorator> MakeDelayer(std::chrono::nanoseconds min, std::chrono::nanoseconds max,
                                       std::uint64_t seed) {
  auto begun = std::make_shared<std::atomic<std::uint64_t>>(0);
  const auto spread = static_cast<std::uint64_t>((max - min).count()) + 1;
  const Schedule schedule = [=] {
    return Clock::now() + min +
           std::chrono::nanoseconds(
               static_cast<std::int64_t>(RandomBelow(seed, (*begun)++, spread)));
  };
  const auto seconds = [](std::chrono::nanoseconds time) {
    return FormatDuration(std::chrono::duration<double>(time).count());
  };
  return std::make_unique<Holder>(
      schedule, absl::StrCat("delayed by ", seconds(min),
                             max > min ? absl::StrCat(" to ", seconds(max)) : ""));
}

std::unique_ptr<Decorator> MakeStaller(std::uint64_t after) {
  auto begun = std::make_shared<std::atomic<std::uint64_t>>(0);
  const Schedule schedule = [=] {
    return (*begun)++ < after ? Clock::now() : Clock::time_point::max();
  };
  return std::make_unique<Holder>(schedule, absl::StrCat("stalled after ", after, " reads"));
}

}  // namespace hmann
