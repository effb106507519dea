#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace hmann {

/// Tells a person how far long work is, with rate and ETA: one redrawn line on a
/// terminal, else a line every 30 seconds. Silent when the environment says so
/// (HMANN_PROGRESS=never) or when constructed with kNever.
///
/// Thread safety: Advance and Now from any thread; Start and Finish from one.
class Progress {
 public:
  enum class Show { kAuto, kAlways, kNever };
  explicit Progress(Show show = Show::kAuto);

  /// Begins a phase of `total` units (0: unknown), e.g. ("insert", 1000000, "vectors").
  void Start(std::string phase, std::uint64_t total, std::string unit);
  void Advance(std::uint64_t units);
  /// Ends the phase; returns its seconds.
  double Finish();

  /// How far the phase is that runs, or ran last.
  struct State {
    std::string phase, unit;
    std::uint64_t done = 0, total = 0;
  };
  State Now() const;

 private:
  void Print(bool last);

  Show show_;
  bool terminal_ = false;
  std::string phase_, unit_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
  std::chrono::steady_clock::time_point start_;
  std::atomic<std::int64_t> next_print_ns_{0};
  mutable std::mutex mutex_;  ///< of the phase, and of printing
};

/// What a phase took: by the clock, of CPU on all threads of the process, and of memory
/// that no file backs, at the most.
struct PhaseTime {
  std::string name;
  double seconds = 0, cpu_seconds = 0;
  std::uint64_t anonymous_bytes = 0;
};

}  // namespace hmann
