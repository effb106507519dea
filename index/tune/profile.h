#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/progress.h"
#include "index/distance/types.h"

namespace hmann {

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
  double steal_share = 0;  ///< of the CPU time of all cores while it was measured: what other virtual machines took
  double busy_share = 0;   ///< of that time: what other processes on this machine used, ours not included
};

/// One load after the other, each address known by the one before: lines of 64 bytes spread over much more than the caches hold.
struct PageLatency {
  std::string page;  ///< "4KiB", "2MiB"; "as placed" where the tier decides
  Figure dependent_load_ns;
};

/// `loads` independent chains side by side in one thread, all of them lines spread as for PageLatency.
struct LoadsInFlight {
  std::uint32_t loads = 0;
  Figure ns_per_line;
};

/// An addressable tier.
struct MemoryProfile {
  std::string tier;  ///< as MakeTier takes it: "dram", "numa:1", "emulated:lat=300ns"
  std::vector<PageLatency> dependent_load;
  std::vector<LoadsInFlight> in_flight;  ///< ascending by loads, the first is 1
  Figure bandwidth_gb_per_s;             ///< 1e9 bytes; reading from end to end, one thread
};

/// L2 distance of a query to one row in the CPU's first cache, in batches.
struct DistanceProfile {
  DType dtype = DType::kF32;
  std::uint32_t dim = 0;
  Figure ns_per_distance;
};

/// An estimate from a sketch in the CPU's caches: `cell` for sketches that follow each other, `gathered` for sketches at any place.
struct SketchProfile {
  std::uint32_t dim = 0, bits = 0;
  Figure ns_per_estimate_cell, ns_per_estimate_gathered;
  Figure ns_per_query;  ///< that a query pays once: its rotation
};

/// Random 4 KiB reads, `depth` of them in flight all the time.
struct BlockDepth {
  std::uint32_t depth = 0;
  Figure read_us;  ///< from submission to completion
  Figure reads_per_s;
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
  std::vector<DistanceProfile> distances;
  std::vector<SketchProfile> sketches;
  std::vector<BlockProfile> blocks;
  Figure thread_wake_us;  ///< from notifying a sleeping thread until it runs

  /// nullptr: not measured.
  const MemoryProfile* Memory(std::string_view tier) const;
  const BlockProfile* Block(std::string_view tier) const;
};

/// ns per line of `memory` with `loads` in flight, interpolated; the last figure beyond what was measured. `loads` is at least 1.
double NsPerLine(const MemoryProfile& memory, double loads);
/// ns of a distance of these vectors in cache: measured, or scaled by bytes from the nearest dimension of the dtype; 0: none of the dtype.
double NsPerDistance(const DeviceProfile& profile, DType dtype, std::uint32_t dim);
/// ns of an estimate of a gathered sketch, likewise scaled; 0: none at all.
double NsPerEstimate(const DeviceProfile& profile, std::uint32_t dim, std::uint32_t bits);

/// Why `profile` is not of this machine, a clause for each difference ("8 cores, here 2"); empty: it is.
std::string MachineDifference(const MachineIdentity& profile, const MachineIdentity& here);

struct ProfileOptions {
  std::vector<std::string> tiers;  ///< besides dram, as MakeTier takes them
  std::string index;               ///< that nvme and mapped read at random; empty: a temporary file of 256 MiB beside `scratch`
  std::string scratch;             ///< path beside which it may be made; in the folder of PATH for nvme:PATH
  int repeats = 7;
  std::uint64_t memory_bytes = std::uint64_t{256} << 20;  ///< of each tier that are read; much more than caches hold
  std::chrono::milliseconds budget{4000};                 ///< of measuring; filling memory comes on top
  /// Shapes for distances and sketches; empty: 128 u8, 96 f32, 100 i8, 784 u8.
  struct Shape {
    DType dtype = DType::kU8;
    std::uint32_t dim = 0;
  };
  std::vector<Shape> shapes;

  /// Errors: INVALID_ARGUMENT naming the field.
  absl::Status Validate() const;
};

/// Measures this machine. Errors: those of MakeTier and of the devices, INVALID_ARGUMENT for a tier that needs a file and has none.
absl::StatusOr<DeviceProfile> MeasureProfile(const ProfileOptions& options, Progress& progress);

/// JSON, whole or not at all; figures rounded to the digits that their spread allows. Errors: those of AtomicFile.
absl::Status WriteProfile(const DeviceProfile& profile, const std::string& path);
/// Errors: NOT_FOUND; INVALID_ARGUMENT naming file, key, expected and found: an empty file, no JSON, a version of the future, a field that
/// is missing or negative.
absl::StatusOr<DeviceProfile> ReadProfile(const std::string& path);

}  // namespace hmann
