/// The least time that a search's own reads would take of a memory or a drive that does
/// nothing else: what it is held against.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "eval/contestant.h"
#include "eval/disk.h"

namespace hmann {

/// Bytes of what a query touches.
struct TouchedBytes {
  std::uint32_t row = 0, links = 0, code = 0;  ///< a vector; a list in L0 or L1; a code
};

/// Cache lines of 64 bytes that a query needs, of hmann's counters (means per query):
/// nobody counts lines, they follow from distances (rows), nodes expanded (lists of
/// links) and estimates (codes, which may share lines: their bytes). What the CPU's
/// caches have is not taken off. nullopt where a counter is missing.
std::optional<double> LinesOfQuery(const Json& counters, const TouchedBytes& bytes);

/// A drive at a depth between or beyond those measured, straight between neighbours.
/// Needs at least one depth.
struct DriveAt {
  double read_us = 0, reads_per_s = 0;
};
DriveAt AtDepth(std::span<const DepthFigures> depths, double depth);

/// Queries a second that a drive allows, at the most: rounds of `reads` / `rounds` reads
/// each, one after the other, of so many queries side by side; and no more reads than it
/// gives with all of these in flight. nullopt for a query without reads.
std::optional<double> DriveLimitQps(std::span<const DepthFigures> depths, double reads,
                                    double rounds, int queries_in_flight);

}  // namespace hmann
