/// What a sweep tells: as one JSON object (of `--json` and of the page), and as a table
/// for the eye.
#pragma once

#include <ostream>
#include <string>

#include "eval/figures.h"
#include "eval/sweep.h"

namespace hmann {

/// `title` `data` `build` `environment` `rounds` `clock` `reference` `targets`
/// `search_threads` ([]: one) `contestants` (each: `name` `library` `build`
/// `build_seconds` `build_cpu_seconds` `build_threads` `phases` `index_bytes`
/// `wall_over_cpu` `waits`, `points`: `setting` `recall` `qps` `qps_mad` `front`
/// `counters`, `targets`: `recall` `qps` `qps_mad` `at_recall` `ratio` `ratio_mad`
/// `mean_us` `p99_us` `lines` (cache lines a query) `of_limit` (QPS, of what as many
/// lines a query at random allow; f32 may be above 1, since the lines of a row come
/// faster), null where the curve does not reach or nobody asked, counted or measured;
/// what a build took is null of an index that stood before), `memory` where it was
/// measured (of the machine's DRAM: `loads`, `ns_a_line`), `work` of those that count
/// (`contestant`, `walk`, and a query's `distances` and `slow_reads` at each target, null
/// where the curve does not reach) and, where hmann ran twice, `noise` (`recall` and the
/// `ratio` of the two, median and MAD over rounds).
Json ToJson(const SweepResult& result);

/// The file that was searched; where only finished indexes are known, that of the
/// queries.
std::string BaseName(const Json& data);

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
