/// The least time that a search's own reads would take of a memory or a drive that does
/// nothing else: what it is held against.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "eval/contestant.h"

namespace hmann::eval {

/// How fast this machine's DRAM gives lines at random, by loads in flight: an array of
/// `loads` `ns_a_line`. Half a second.
absl::StatusOr<Json> MeasureGathers();

/// How fast a drive gives blocks of 4 KiB at random, past the page cache: `path`, `tier`
/// and `depths`, of reads in flight `depth`, `mean_us` and `iops`. Some seconds, over the
/// file, or one of `folder` where that is small.
absl::StatusOr<Json> MeasureDrive(const std::string& path, const std::string& folder);

/// Queries a second of one thread, whose `lines` come as fast as this memory gives lines
/// at random with as many loads in flight as suit it best. nullopt where nobody counted
/// or nothing was measured.
std::optional<double> MemoryLimitQps(const Json& gathers, const std::optional<double>& lines);

/// A drive at a depth between or beyond those measured, straight between neighbours.
/// Needs at least one depth.
struct DriveAt {
  double read_us = 0, reads_per_s = 0;
};
DriveAt AtDepth(const Json& depths, double depth);

/// Queries a second that a drive allows, at the most: rounds of `reads` / `rounds` reads
/// each, one after the other, of so many queries side by side; and no more reads than it
/// gives with all of these in flight. nullopt for a query without reads.
std::optional<double> DriveLimitQps(const Json& depths, double reads, double rounds,
                                    int queries_in_flight);

}  // namespace hmann::eval
