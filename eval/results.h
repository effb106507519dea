/// results.jsonl, the one file of every benchmark. Its first line is {"kind":
/// "benchmark", "version", "title", "data", "build", "environment", "options", "rounds",
/// "clock", "reference", "targets", "shapes"}: what was measured, on which machine, how.
/// Behind it, in the order of time:
///
/// - "system": who takes part and where: `system` `place` (`slow` `server`
///   `memory_limit`) `data` (vectors) `made_up` `library` `build` `build_seconds` ...
///   `curves` (CurveSpec);
/// - "run": `system` `place` `data` `setting` `round` and what was measured: `recall`
///   `qps` `seconds` `cpu_seconds`, latencies and bytes, where others were looked for
///   `others_busy` `others_steal` (shares of the CPU), and `noisy`. Of load that was
///   offered: `rate` `offered` `answered` `failed` and latencies;
/// - "count": counters of a setting, untimed;
/// - "round": `others_busy` `others_steal` over a whole round;
/// - "device": a drive by itself, by depth; "dram": the machine's memory;
/// - "memory": what a system had of its limit;
/// - "data": where there are several sizes, one of them, with all its lines behind it.
#pragma once

#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/figures.h"

namespace hmann::eval {

inline constexpr int kResultsVersion = 1;

/// Lines as they are written, under another name until they are whole.
class ResultFile {
 public:
  /// Begins <folder>/results.jsonl.part. Errors: RESOURCE_EXHAUSTED, as below.
  absl::Status Open(const std::string& folder);
  absl::Status Write(Json line);
  /// Renames it; gives all lines.
  absl::StatusOr<std::vector<Json>> Commit();

 private:
  absl::Status Check();

  std::string path_;
  std::ofstream out_;
  std::vector<Json> lines_;
};

/// Of a file that WriteResults or a ResultFile has written. Errors: of the file;
/// INVALID_ARGUMENT naming the line that cannot be read, or another version.
absl::StatusOr<std::vector<Json>> ReadResults(const std::string& path);
/// The file whole or not at all.
absl::Status WriteResults(const std::string& path, const std::vector<Json>& lines);

/// What was run, a curve for each CurveSpec and shape, those of as many threads together.
std::vector<Curve> CurvesOf(const std::vector<Json>& lines);

/// All that is told of the lines, of `--json`, of the page and of the tables: the first
/// line's keys, and
/// - `contestants`, a row for each curve: `name` `system` `place` `data` `kind` `aside`
///   `threads` `in_flight`, what its index is (`library` `build` `build_seconds` ...),
///   `wall_over_cpu` `waits` `noisy` (runs), `points` (`setting` `recall` `qps` `qps_mad`
///   `front` `counters`), and `targets`: `recall` `qps` `qps_mad` `at_recall` `ratio`
///   `ratio_mad` (to the reference with as many threads) `of_all_dram`
///   `of_without_latency` (likewise, with `_mad`), `mean_us` `p99_us` `cpu_us`, a query's
///   `distances` `estimates` `slow_reads` `slow_bytes` `rounds` `io_reads` `lines`
///   (counters) and `blocks` (4 KiB that disks gave, as the kernel counts), and
///   `limit_qps` `of_limit` (what memory or drive allow) `disk_share` (blocks x QPS of
/// what the drive gives);
/// - `noise` of what ran twice: `contestant` `recall` `ratio` `ratio_mad`;
/// - `quiet`: `runs` `noisy` `busy` `steal` (medians over rounds);
/// - `memory` (of DRAM: `loads` `ns_a_line`), `disk` (`measured` `most_iops`, `memory`),
///   `sizes` and `load`, where there are such lines.
/// null: the curve does not reach, or nobody asked, counted or measured.
Json FiguresOf(const std::vector<Json>& lines);

/// Tables for the eye.
void PrintTables(const Json& figures, std::ostream& out);

}  // namespace hmann::eval
