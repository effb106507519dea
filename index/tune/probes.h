#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/progress.h"
#include "hmann/tune.h"
#include "index/base/buffer.h"

namespace hmann {

/// The median of `samples` and their spread; an unknown figure if there are none.
Figure FigureOf(std::vector<double> samples);
/// figure.median with as many digits as its spread allows, at most four. It is rounded to
/// the power of ten that half the spread fills.
double Rounded(const Figure& figure);

/// Measurements that are repeated in turns. A temporary disturbance of the machine then
/// affects one repeat of each, instead of all repeats of one.
class Probes {
 public:
  using Clock = std::chrono::steady_clock;
  /// Measures for about `slice`.
  using Measure = std::function<absl::StatusOr<double>(Clock::duration slice)>;

  /// `out` must outlive Run.
  void Add(Figure* out, Measure measure) { probes_.push_back({out, std::move(measure), {}}); }
  /// Runs every probe `repeats` times, after one warm-up run that does not count. Errors:
  /// the first error of a probe.
  absl::Status Run(int repeats, std::chrono::nanoseconds budget, Progress& progress);
  /// The figures from Run.
  std::vector<Figure> figures() const;

 private:
  struct Probe {
    Figure* out;
    Measure measure;
    std::vector<double> samples;
  };
  std::vector<Probe> probes_;
};

/// Calls work() for about `slice`. Returns the median over its calls of ns per unit; one
/// call does `units`. A call should take some microseconds. Then the clock costs little,
/// and another thread that takes the core for a while disturbs only a few calls.
template <class Work>
double NsPerUnit(Probes::Clock::duration slice, std::uint64_t units, Work&& work) {
  std::vector<double> calls;
  auto begin = Probes::Clock::now();
  const auto end = begin + slice;
  do {
    work();
    const auto now = Probes::Clock::now();
    calls.push_back(std::chrono::duration<double, std::nano>(now - begin).count());
    begin = now;
  } while (begin < end);
  return FigureOf(std::move(calls)).median / static_cast<double>(units);
}

/// Keeps `value` from being optimized away.
template <class T>
void Keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

/// Makes lines of 64 bytes that link to each other in one random cycle: the line at `line
/// * 64` begins with the u32 number of the next.
absl::StatusOr<Buffer> MakeLoadChain(std::uint64_t bytes);

/// Adds the probes of an addressable tier to `probes`; they fill `profile` when they run.
/// `chain`: from MakeLoadChain; it and `profile` must outlive the run. `probes` owns what
/// the probes allocate.
absl::Status AddMemoryProbes(const std::string& tier, const Buffer& chain, MemoryProfile& profile,
                             Probes& probes, Progress& progress);

/// Likewise for a block tier, on random blocks of an existing file.
absl::Status AddBlockProbes(const std::string& tier, const std::string& path, BlockProfile& profile,
                            Probes& probes);

}  // namespace hmann
