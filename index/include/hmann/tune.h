/// What looks at an index and a machine from outside and says how best to use them: find
/// the dials that meet a target, measure what the machine can do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/hmann.h"
#include "hmann/machine_load.h"
#include "hmann/progress.h"
#include "hmann/target.h"
#include "hmann/tuned_table.h"
#include "hmann/types.h"

namespace hmann {

/// What Tune is to find.
struct TuneOptions {
  std::string index;        ///< index file
  OpenOptions open;         ///< the placement that is tuned
  std::string queries;      ///< vector file to learn from; empty: vectors of the index, left out in
                            ///< turn (MakeLearningSet)
  std::string groundtruth;  ///< of `queries`; empty: found (MakeLearningSet)
  std::vector<std::uint32_t> k = {10};
  /// Recalls are contested each, latencies answered from what that gave; the table
  /// answers others too. Of latencies alone the recalls are 0.9, 0.95 and 0.99.
  std::vector<Target> targets = {{.recall = 0.9}, {.recall = 0.95}, {.recall = 0.99}};
  /// Queries, at most; 0: so many that a mean recall of 0.95 has a standard error of
  /// about 0.0016: 20,000 for k = 1, 5,000 below 100, else 1,500.
  std::uint64_t learn = 0;
  std::uint32_t most_query_threads = 0;  ///< 0: the usable cores
  bool accept_noise = false;             ///< store times though the machine was not quiet
  const std::atomic<bool>* cancelled =
      nullptr;  ///< not owned; CANCELLED soon after it becomes true
};

/// What became of the settings that competed for a recall: ways of searching, each at the
/// effort that reaches it.
struct Contest {
  double recall = 0;
  std::size_t settings = 0;  ///< that reach the recall
  std::size_t unable = 0;    ///< ways that no effort brings to it
  std::size_t dropped = 0;   ///< never timed: Equation 3.1 says that others are faster
  bool upper_dropped =
      false;  ///< the upper layers alone (the paper's efSearchL0 = 0) were among these two
  std::size_t neighbours = 0;  ///< of the winner, timed beside it
  double equation_error = 0;   ///< of Equation 3.1 on what was timed: median, relative
};

/// Of Equation 3.1 (index/tune/equation31.h), as measured where the index was tuned.
struct EquationConstants {
  double fast_ns = 0, slow_ns = 0;         ///< T_fast, T_slow
  double gathered_ns = 0, by_cell_ns = 0;  ///< an estimate from a code; 0: no codes
};

/// A target, and what the table answers to it.
struct TunedChoice {
  Target target;
  absl::StatusOr<TunedSetting> setting;  ///< OUT_OF_RANGE: cannot be met
};

struct TunedForK {
  TunedEntry entry;  ///< as it was stored
  std::vector<TunedChoice> choices;
  std::vector<Contest> contests;
  EquationConstants equation;
  double same_again = 1;  ///< a setting beside itself, time over time
  OthersShare others;     ///< while it was tuned
  double seconds = 0;
};

struct TuneReport {
  std::vector<TunedForK> of_k;
  std::vector<std::string> warnings;  ///< a stale table that was replaced, noise
  std::string table;                  ///< path of the tuned table
};

/// Finds the fastest dials for each target (index/tune/tuner.h), one query at a time in
/// one thread, and stores them beside the index (hmann/tuned_table.h) for
/// Index::Resolve; entries of other placements and other k stay. Errors:
/// INVALID_ARGUMENT (no queries, another dimension or type, targets), UNAVAILABLE where
/// the machine was not quiet (nothing of that k is stored), CANCELLED, those of
/// Index::Open and of AtomicFile.
absl::StatusOr<TuneReport> Tune(const TuneOptions& options, Progress& progress);

/// The median of several measurements, in the unit that its field's name ends with.
struct Figure {
  double median = 0;
  double spread = 0;  ///< (highest - lowest quartile) / median of the repeats

  bool noisy() const { return spread > 0.2; }
};

/// What a profile is of. Another machine's figures mean little here.
struct MachineIdentity {
  std::string cpu_model;  ///< "model name" of /proc/cpuinfo; where there is none, the architecture
  int cores = 0;          ///< that this process may use
  std::uint64_t memory_bytes = 0;
  std::string simd;  ///< level of the kernels: "avx512"
};

MachineIdentity ThisMachine();

/// How far the figures can be trusted.
struct MeasurementNoise {
  int repeats = 0;           ///< of each figure
  double median_spread = 0;  ///< over all figures
  double worst_spread = 0;
  double steal_share =
      0;  ///< of the CPU time of all cores while it was measured: what other virtual machines took
  double busy_share =
      0;  ///< of that time: what other processes on this machine used, ours not included

  /// Otherwise the figures compare with each other at most.
  bool quiet() const {
    return OthersShare{steal_share, busy_share}.quiet() && median_spread <= 0.1;
  }
};

/// `loads` independent chains side by side in one thread, in each one load after the
/// other, its address known by the one before: lines of 64 bytes spread over much more
/// than the caches hold. The time of 1 is the latency.
struct LoadsInFlight {
  std::uint32_t loads = 0;
  Figure ns_per_line;
};

/// An addressable tier.
struct MemoryProfile {
  std::string tier;  ///< as MakeTier takes it: "dram", "numa:1", "emulated:lat=300ns"
  std::vector<LoadsInFlight> in_flight;  ///< ascending by loads, the first is 1
  Figure bandwidth_gb_per_s;             ///< 1e9 bytes; reading from end to end, one thread
};

/// Random 4 KiB reads, `depth` of them in flight all the time.
struct BlockDepth {
  std::uint32_t depth = 0;
  Figure read_us;  ///< from submission to completion

  double reads_per_s() const { return depth * 1e6 / read_us.median; }
};

/// A block tier.
struct BlockProfile {
  std::string tier;                ///< as MakeTier takes it
  std::string device;              ///< as Whereabouts::device says
  std::uint64_t file_bytes = 0;    ///< of what was read at random
  std::vector<BlockDepth> depths;  ///< ascending; the first is 1
};

struct DeviceProfile {
  MachineIdentity machine;
  MeasurementNoise noise;
  double seconds = 0;  ///< that the measurement took
  std::vector<MemoryProfile> memory;
  std::vector<BlockProfile> blocks;

  /// nullptr: not measured.
  const MemoryProfile* Memory(std::string_view tier) const;
};

struct ProfileOptions {
  std::vector<std::string> tiers;  ///< besides dram, as MakeTier takes them
  std::string scratch;             ///< path beside which mapped and nvme have a temporary file of
                        ///< `memory_bytes`; that of dax:PATH and nvme:PATH is beside PATH
  std::string index;  ///< an existing file that nvme reads instead
  int repeats = 7;
  std::uint64_t memory_bytes = std::uint64_t{256}
                               << 20;  ///< of each tier that are read; much more than caches hold
  std::chrono::milliseconds budget{4000};  ///< of measuring; filling memory comes on top
  /// Errors: INVALID_ARGUMENT naming the field.
  absl::Status Validate() const;
};

/// Measures this machine. Errors: those of MakeTier and of the devices, INVALID_ARGUMENT
/// for a tier that needs a file and has none.
absl::StatusOr<DeviceProfile> MeasureProfile(const ProfileOptions& options, Progress& progress);

/// JSON, whole or not at all; figures rounded to the digits that their spread allows.
/// Errors: those of AtomicFile.
absl::Status WriteProfile(const DeviceProfile& profile, const std::string& path);

}  // namespace hmann
