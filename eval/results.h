/// What a sweep tells: as one JSON object (of `--json` and of the page), and as a table for the eye.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/figures.h"
#include "eval/report_template.h"
#include "eval/sweep.h"

namespace hmann {

/// `title` `data` `build` `environment` `rounds` `clock` `reference` `targets` `contestants` (each: `name` `library` `build`
/// `build_seconds` `build_cpu_seconds` `build_threads` `phases` `index_bytes` `wall_over_cpu`, `points`: `setting` `recall` `qps` `qps_mad`
/// `front` `counters`, `targets`: `recall` `qps` `qps_mad` `at_recall` `ratio` `ratio_mad`, null where the curve does not reach) and, where
/// hmann ran twice, `noise` (`recall` and the `ratio` of the two, median and MAD over rounds).
Json ToJson(const SweepResult& result);

/// The same figures as a table.
void PrintSweepTable(const Json& figures, std::ostream& out);

/// High-degree against other promotion orders: per contestant, which is one (order, share), and walk: `contestant` `promotion` `promote`
/// `walk`, and for each target `recall` `slow_reads` (per query, read along the front) `qps` `qps_mad`.
Json ComparePromotion(const SweepResult& result);

void PrintPromotionTable(const Json& rows, std::ostream& out);

/// Writes the page: one file, all of it inside. Errors: as AtomicFile.
absl::Status WriteReport(const Json& figures, const std::string& path, std::string_view page = ReportTemplate());

}  // namespace hmann
