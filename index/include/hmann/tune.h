/// Tools that examine an index and a machine from outside: they find the parameters that
/// meet a target and measure what the machine can do.
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

/// What Tune searches for.
struct TuneOptions {
  std::string index;  ///< index file
  OpenOptions open;   ///< the placement to tune
  /// Vector file of learning queries. Empty: vectors of the index, left out in turn
  /// (MakeLearningSet).
  std::string queries;
  /// Ground truth of `queries`; empty: computed (MakeLearningSet).
  std::string groundtruth;
  /// The index is one of this many shards, over which rows are spread at random. Recalls
  /// are then those of the merged answers of all, k of each. `groundtruth` is of all
  /// shards and tells which neighbors of this one count. Without it they count by the
  /// chance that they do (RecallOfMerged). That is less than the recall of other queries,
  /// because neighbors that count are easier to find.
  std::uint32_t of_shards = 1;
  std::vector<std::uint32_t> k = {10};
  /// Settings compete for each recall target. Latency targets are answered from those
  /// results; the table answers other targets, too. If only latencies are given, the
  /// recalls are 0.9, 0.95 and 0.99.
  std::vector<Target> targets = {{.recall = 0.9}, {.recall = 0.95}, {.recall = 0.99}};
  /// Maximum number of learning queries. 0: enough for a standard error of about 0.0016
  /// at a mean recall of 0.95: 20,000 for k = 1, 5,000 for k below 100, otherwise 1,500.
  std::uint64_t learn = 0;
  /// Threads of a query at most. More than one are faster only where cores are idle.
  std::uint32_t most_query_threads = 1;
  bool accept_noise = false;  ///< replace stored times even with other load
  /// Not owned. Tune returns CANCELLED soon after it becomes true.
  const std::atomic<bool>* cancelled = nullptr;
};

/// The competition between settings for one recall. The settings are ways of searching,
/// each at the ef_scale that reaches the recall.
struct Comparison {
  double recall = 0;
  std::size_t settings = 0;  ///< settings that reach the recall
  std::size_t unable = 0;    ///< ways that reach it at no ef_scale
  std::size_t dropped = 0;   ///< not compared: Equation 3.1, or one timing, has others far ahead
  /// The upper layers alone (efSearchL0 = 0 in the paper) are among `unable` or
  /// `dropped`.
  bool upper_dropped = false;
  std::size_t neighbors = 0;  ///< neighbors of the winner that were timed with it
  /// Median relative error of Equation 3.1 on all settings. Above 0.25 it drops none.
  double equation_error = 0;
};

/// Constants of Equation 3.1 (index/tune/equation31.h), measured where the index was
/// tuned.
struct EquationConstants {
  double fast_ns = 0, slow_ns = 0;         ///< T_fast, T_slow
  double gathered_ns = 0, by_cell_ns = 0;  ///< an estimate from a code; 0: no codes
};

/// A target and the answer of the table to it.
struct TunedChoice {
  Target target;
  absl::StatusOr<TunedSetting> setting;  ///< OUT_OF_RANGE: no setting meets it
};

struct TunedForK {
  TunedEntry entry;  ///< the stored entry
  std::vector<TunedChoice> choices;
  std::vector<Comparison> comparisons;
  EquationConstants equation;
  double same_again = 1;  ///< time ratio of a setting measured against itself
  OthersShare others;     ///< other load during tuning
  double seconds = 0;
};

struct TuneReport {
  std::vector<TunedForK> of_k;
  std::vector<std::string> warnings;  ///< replacement of a stale table, noise
  std::string table;                  ///< path of the tuned table
};

/// Finds the fastest parameters for each target (index/tune/tuner.h), with one query at a
/// time in one thread. Stores them next to the index (hmann/tuned_table.h) for
/// Index::Resolve; entries of other placements and other k remain. Errors:
/// INVALID_ARGUMENT (no queries, another dimension or type, targets), UNAVAILABLE if the
/// machine was not quiet (nothing is stored for that k), CANCELLED, those of Index::Open
/// and of AtomicFile.
absl::StatusOr<TuneReport> Tune(const TuneOptions& options, Progress& progress);

/// The median of several measurements, in the unit at the end of the field's name.
struct Figure {
  double median = 0;
  double spread = 0;  ///< (highest - lowest quartile) / median of the repeats

  bool noisy() const { return spread > 0.2; }
};

/// The machine that a profile describes. Figures of another machine mean little here.
struct MachineIdentity {
  /// "model name" in /proc/cpuinfo; without one, the architecture.
  std::string cpu_model;
  int cores = 0;  ///< cores that this process may use
  std::uint64_t memory_bytes = 0;
  std::string simd;  ///< instruction-set level of the kernels: "avx512"
};

MachineIdentity ThisMachine();

/// How reliable the figures are.
struct MeasurementNoise {
  int repeats = 0;           ///< repeats of each figure
  double median_spread = 0;  ///< over all figures
  double worst_spread = 0;
  /// Share of the CPU time of all cores that other virtual machines took during the
  /// measurement.
  double steal_share = 0;
  /// Share of that time that other processes on this machine used; the processes of the
  /// measurement do not count.
  double busy_share = 0;

  /// If false, the figures compare only with each other.
  bool quiet() const {
    return OthersShare{steal_share, busy_share}.quiet() && median_spread <= 0.1;
  }
};

/// `loads` independent pointer chains side by side in one thread. In each chain the
/// address of a load comes from the load before it. The 64-byte lines are spread over far
/// more memory than the caches hold. The time for 1 load is the latency.
struct LoadsInFlight {
  std::uint32_t loads = 0;
  Figure ns_per_line;
};

/// An addressable tier.
struct MemoryProfile {
  std::string tier;  ///< as MakeTier takes it: "dram", "numa:1", "emulated:lat=300ns"
  std::vector<LoadsInFlight> in_flight;  ///< ascending by loads; the first has 1
  Figure bandwidth_gb_per_s;             ///< one thread, sequential reads; 1 GB = 1e9 bytes
  Figure peak_gb_per_s;                  ///< a thread on each usable core

  /// Thr (section 6 of doc/paper.md): search threads that use the bandwidth up.
  double thr() const { return peak_gb_per_s.median / bandwidth_gb_per_s.median; }
};

/// Random 4 KiB reads with `depth` reads constantly in flight.
struct BlockDepth {
  std::uint32_t depth = 0;
  Figure read_us;  ///< from submission to completion

  double reads_per_s() const { return depth * 1e6 / read_us.median; }
};

/// A block tier.
struct BlockProfile {
  std::string tier;                ///< as MakeTier takes it
  std::string device;              ///< as in MemoryResidency::device
  std::uint64_t file_bytes = 0;    ///< size of the file that was read at random
  std::vector<BlockDepth> depths;  ///< ascending; the first is 1
};

struct DeviceProfile {
  MachineIdentity machine;
  MeasurementNoise noise;
  double seconds = 0;  ///< duration of the measurement
  std::vector<MemoryProfile> memory;
  std::vector<BlockProfile> blocks;

  /// nullptr: not measured.
  const MemoryProfile* Memory(std::string_view tier) const;
};

struct ProfileOptions {
  std::vector<std::string> tiers;  ///< in addition to dram, as MakeTier takes them
  /// Path next to which mapped and nvme create a temporary file of `memory_bytes`. The
  /// file for dax:PATH and nvme:PATH is next to PATH.
  std::string scratch;
  std::string index;  ///< an existing file that nvme reads instead
  int repeats = 7;
  /// Bytes read per tier; far more than the caches hold.
  std::uint64_t memory_bytes = std::uint64_t{256} << 20;
  /// Time for measuring; filling the memory takes additional time.
  std::chrono::milliseconds budget{4000};
  /// Errors: INVALID_ARGUMENT naming the field.
  absl::Status Validate() const;
};

/// Measures this machine. Errors: those of MakeTier and of the devices; INVALID_ARGUMENT
/// for a tier that needs a file and has none.
absl::StatusOr<DeviceProfile> MeasureProfile(const ProfileOptions& options, Progress& progress);

/// Writes JSON, completely or not at all. Figures are rounded to the digits that their
/// spread allows. Errors: those of AtomicFile.
absl::Status WriteProfile(const DeviceProfile& profile, const std::string& path);

}  // namespace hmann
