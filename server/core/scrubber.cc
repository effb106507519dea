#include "server/core/scrubber.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "index/base/units.h"
#include "spdlog/spdlog.h"

namespace hmann::server {
namespace {

constexpr std::chrono::hours kBetweenPasses(1);
constexpr std::chrono::minutes kAfterAnError(1);
constexpr std::chrono::milliseconds kForTheNext(50);
/// Searches take precedence.
constexpr int kNice = 10;

}  // namespace

Scrubber::Scrubber(const Registry& registry, std::uint64_t bytes_per_second, Withdrawn withdrawn)
    : registry_(registry),
      bytes_per_second_(static_cast<double>(bytes_per_second)),
      withdrawn_(std::move(withdrawn)) {
  if (bytes_per_second > 0) thread_ = std::thread([this] { Run(); });
}

void Scrubber::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Scrubber::Run() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  do {
    for (const auto& served : registry_.indexes()) {
      const absl::StatusOr<Snapshot> index = served->Get();
      if (!index.ok()) continue;
      ScrubProgress& last = served->scrub();
      const std::uint64_t now = index->generation().number();
      if (std::exchange(last.generation, now) != now || last.due <= Clock::now())
        last.due = Pass(*index);
    }
  } while (WaitUntil(Clock::now() + kForTheNext));
}

/// Scrubs one index and returns the time of its next pass.
Scrubber::Clock::time_point Scrubber::Pass(const Snapshot& index) {
  if (index.index() == nullptr || index.index()->bytes_in_place() == 0)
    return Clock::now() + kBetweenPasses;
  ServedIndex& served = index.served();
  const absl::Status status =
      index.index()->Scrub([&](std::uint64_t bytes) { return Pace(index, bytes); });
  if (status.ok()) {
    ++served.scrub().passes;
    spdlog::info("index {}: {} that are read in place have their checksums", served.name(),
                 FormatSize(index.index()->bytes_in_place()));
    return Clock::now() + kBetweenPasses;
  }
  if (absl::IsCancelled(status)) return Clock::now();
  if (absl::IsDataLoss(status)) {
    if (served.Withdraw(index, status)) withdrawn_(served);
  } else {
    spdlog::warn("index {}: not checked: {}", served.name(), std::string(status.message()));
  }
  return Clock::now() + kAfterAnError;
}

/// Waits for the turn to read `bytes` more. Returns false if they need not be read.
bool Scrubber::Pace(const Snapshot& index, std::uint64_t bytes) {
  // A generation that is replaced is let go soon.
  for (auto now = Clock::now(); now < next_read_; now = Clock::now()) {
    if (!WaitUntil(std::min<Clock::time_point>(next_read_, now + kForTheNext))) return false;
    if (!index.current()) return false;
  }
  const std::chrono::duration<double> takes(static_cast<double>(bytes) / bytes_per_second_);
  next_read_ = std::max(next_read_, Clock::now()) + std::chrono::ceil<Clock::duration>(takes);
  index.served().scrub().bytes += bytes;
  return index.current();
}

/// Returns false if the scrubber was stopped.
bool Scrubber::WaitUntil(Clock::time_point time) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_until(lock, time, [this] { return stop_; });
}

}  // namespace hmann::server
