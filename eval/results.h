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
/// `ratio` `ratio_mad`, null where the curve does not reach) and, where hmann ran twice,
/// `noise` (`recall` and the `ratio` of the two, median and MAD over rounds).
Json ToJson(const SweepResult& result);

/// What was searched and how it was timed, of the figures of a sweep: a line.
std::string DataLine(const Json& figures);

/// The same figures as a table.
void PrintSweepTable(const Json& figures, std::ostream& out);

}  // namespace hmann
