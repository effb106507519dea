#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace hmann {

/// Shows the progress of long work, with rate and ETA: one redrawn line with a bar on a
/// terminal, otherwise a line after 3 seconds and then every 10. Silent if the
/// environment has HMANN_PROGRESS=never or if constructed with kNever.
///
/// Thread safety: Advance, Now and Share from any thread; the rest from one thread.
class Progress {
 public:
  enum class Show { kAuto, kAlways, kNever };
  explicit Progress(Show show = Show::kAuto);

  /// Starts a phase of `total` units (0: unknown), e.g. ("insert", 1000000, "vectors").
  void Start(std::string phase, std::uint64_t total, std::string unit);
  void Advance(std::uint64_t units);
  /// Ends the phase and returns its duration in seconds.
  double Finish();

  /// Announces the bytes of all phases to come. Those that count bytes are parts of them.
  void Expect(std::uint64_t bytes);
  /// The share of these that is done, at most 1. 0: none was announced.
  double Share() const;

  /// Progress of the current phase, or of the last one.
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
  std::uint64_t expected_ = 0, done_before_ = 0;  ///< bytes; those of earlier phases
  mutable std::mutex mutex_;  ///< guards the phase, these bytes and the printing
};

/// Cost of a phase: wall-clock time, CPU time of all threads of the process, and peak
/// memory not backed by a file.
struct PhaseTime {
  std::string name;
  double seconds = 0, cpu_seconds = 0;
  std::uint64_t anonymous_bytes = 0;
  double serial_seconds = 0;  ///< CPU time that more threads would not divide
};

}  // namespace hmann
