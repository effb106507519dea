/// What a sweep tells: as one JSON object (of `--json` and of the page), and as a table
/// for the eye.
#pragma once

#include <ostream>
#include <string>

#include "eval/figures.h"
#include "eval/sweep.h"

namespace hmann {

/// `title` `data` `build` `environment` `rounds` `clock` `reference` `targets`
/// `contestants` (each: `name` `library` `build` `build_seconds` `build_cpu_seconds`
/// `build_threads` `phases` `index_bytes` `wall_over_cpu`, `points`: `setting` `recall`
/// `qps` `qps_mad` `front` `counters`, `targets`: `recall` `qps` `qps_mad` `at_recall`
/// `ratio` `ratio_mad`, null where the curve does not reach), `work` of those that count
/// (`contestant`, `walk`, and a query's `distances` and `slow_reads` at each target, null
/// where the curve does not reach) and, where hmann ran twice, `noise` (`recall` and the
/// `ratio` of the two, median and MAD over rounds).
Json ToJson(const SweepResult& result);

/// What was searched and how often, of the figures of a sweep, without the line's end.
std::string DataLine(const Json& figures);

Json OrNull(const std::optional<double>& value);

/// A contestant beside itself: `recall`, `ratio` and `ratio_mad` of each target that has
/// a ratio; and as lines for the eye.
Json NoiseOf(const ContestantFigures& contestant);
void PrintNoise(const Json& noise, std::ostream& out);

/// The same figures as a table.
void PrintSweepTable(const Json& figures, std::ostream& out);

}  // namespace hmann
