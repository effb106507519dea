/// The least time that a search's own reads would take from an otherwise idle memory or
/// drive. Benchmarks compare searches with this limit.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "eval/system.h"

namespace hmann::eval {

/// Measures how fast this machine's DRAM delivers random lines, by loads in flight: an
/// array of `loads` and `ns_a_line`. Takes half a second.
absl::StatusOr<Json> MeasureGathers();

/// Measures how fast a drive delivers random 4 KiB blocks, bypassing the page cache:
/// `path`, `tier`, and `depths`, an array of `depth` (reads in flight), `mean_us` and
/// `iops`. Reads the file, or one of `folder` if the file is small. Takes some seconds.
absl::StatusOr<Json> MeasureDrive(const std::string& path, const std::string& folder);

/// QPS of one thread if its `lines` arrive as fast as this memory delivers random lines,
/// at the best number of loads in flight. nullopt if nothing was counted or measured.
std::optional<double> MemoryLimitQps(const Json& gathers, const std::optional<double>& lines);

/// Interpolates a drive's figures linearly at a depth, also beyond the measured ones.
/// Requires at least one depth.
struct DriveAt {
  double read_us = 0, reads_per_s = 0;
};
DriveAt AtDepth(const Json& depths, double depth);

/// The most QPS that a drive allows. Each query does `rounds` rounds of `reads` /
/// `rounds` reads, one after the other, with `queries_in_flight` queries in parallel. The
/// drive gives no more reads than with all of these in flight. nullopt for a query
/// without reads.
std::optional<double> DriveLimitQps(const Json& depths, double reads, double rounds,
                                    int queries_in_flight);

}  // namespace hmann::eval
