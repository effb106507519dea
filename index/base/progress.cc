#include "hmann/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/clock.h"
#include "index/base/units.h"

namespace hmann {
namespace {

/// Of lines in a log or a notebook: the first one, and the next ones.
constexpr std::int64_t kFirstLineNs = 3'000'000'000, kNextLineNs = 10'000'000'000;
constexpr std::string_view kBytes = "bytes";
constexpr std::int64_t kRedrawNs = 100'000'000;  // of the line on a terminal

/// "[######----]".
std::string Bar(double share) {
  constexpr int kWidth = 20;
  const int full = std::clamp(static_cast<int>(share * kWidth), 0, kWidth);
  return absl::StrCat("[", std::string(full, '#'), std::string(kWidth - full, '-'), "] ");
}

/// "812", "81.2 k", "8.1 M".
std::string FormatCount(double n) {
  if (n < 1e4) return absl::StrFormat("%.0f", n);
  if (n < 1e6) return absl::StrFormat("%.1f k", n / 1e3);
  return absl::StrFormat("%.1f M", n / 1e6);
}

}  // namespace

Progress::Progress(Show show) : show_(show), terminal_(::isatty(STDERR_FILENO) != 0) {
  const char* setting = std::getenv("HMANN_PROGRESS");
  if (setting != nullptr && std::string_view(setting) == "never") show_ = Show::kNever;
}

void Progress::Start(std::string phase, std::uint64_t total, std::string unit) {
  {
    const std::lock_guard lock(mutex_);
    if (unit_ == kBytes) done_before_ += done_;
    phase_ = std::move(phase);
    unit_ = std::move(unit);
    total_ = total;
    done_ = 0;
  }
  start_ = std::chrono::steady_clock::now();
  next_print_ns_ = terminal_ ? kRedrawNs : kFirstLineNs;
}

void Progress::Advance(std::uint64_t units) {
  done_.fetch_add(units, std::memory_order_relaxed);
  if (show_ == Show::kNever) return;
  const std::int64_t now = NanosecondsSince(start_);
  std::int64_t due = next_print_ns_.load(std::memory_order_relaxed);
  if (now < due) return;
  const std::int64_t interval = terminal_ ? kRedrawNs : kNextLineNs;
  if (next_print_ns_.compare_exchange_strong(due, now + interval)) Print(false);
}

double Progress::Finish() {
  const double seconds = SecondsSince(start_);
  const bool long_enough = seconds * 1e9 > kFirstLineNs;
  if (show_ != Show::kNever && (terminal_ || show_ == Show::kAlways || long_enough)) Print(true);
  return seconds;
}

Progress::State Progress::Now() const {
  const std::lock_guard lock(mutex_);
  return {phase_, unit_, done_.load(std::memory_order_relaxed), total_};
}

void Progress::Expect(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  expected_ = bytes;
}

double Progress::Share() const {
  const std::lock_guard lock(mutex_);
  if (expected_ == 0) return 0;
  const std::uint64_t done = done_before_ + (unit_ == kBytes ? done_.load() : 0);
  return std::min(1.0, static_cast<double>(done) / static_cast<double>(expected_));
}

void Progress::Print(bool last) {
  const std::lock_guard lock(mutex_);
  const double seconds = SecondsSince(start_);
  const auto done = static_cast<double>(done_.load(std::memory_order_relaxed));
  const double rate = seconds > 0 ? done / seconds : 0;
  std::string line = absl::StrCat(phase_, ": ");
  if (terminal_ && total_ > 0) line += Bar(done / static_cast<double>(total_));
  absl::StrAppend(&line, FormatCount(done), " ", unit_);
  if (total_ > 0)
    absl::StrAppendFormat(&line, " (%.0f %%)", 100.0 * done / static_cast<double>(total_));
  absl::StrAppend(&line, ", ", FormatCount(rate), "/s, ", FormatDuration(seconds));
  if (!last && rate > 0 && done < static_cast<double>(total_))
    absl::StrAppend(&line, ", ETA ", FormatDuration((static_cast<double>(total_) - done) / rate));
  std::fprintf(stderr, terminal_ ? "\r\033[K%s%s" : "%s%s", line.c_str(),
               terminal_ && !last ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace hmann
