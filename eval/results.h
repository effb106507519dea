/// results.jsonl, the one file of every benchmark. Its first line is {"kind":
/// "benchmark", "version", "title", "data", "build", "environment", "options", "rounds",
/// "clock", "reference", "targets", "shapes"}. It says what was measured, on which
/// machine, and how. The other lines follow in order of time:
///
/// - "system": a participant and its place: `system` `place` (`slow` `server`
///   `memory_limit`) `data` (vectors) `synthetic` `library` `build` `build_seconds` ...
///   `curves` (CurveSpec);
/// - "run": `system` `place` `data` `setting` `round` and the measurements: `recall`
///   `qps` `seconds` `cpu_seconds`, latencies and bytes. `others_busy` `others_steal`
///   (shares of the CPU) and `noisy` appear if other processes were observed. For offered
///   load: `rate` `offered` `answered` `failed` and latencies;
/// - "count": counters of a setting, untimed;
/// - "round": `others_busy` `others_steal` over a whole round;
/// - "device": a drive by itself, by depth; "dram": the machine's memory;
/// - "memory": a system's use of its limit;
/// - "runbook": a runbook of changes and searches at one target: mean `recall`,
///   `least_recall`, seconds of both, `merges`; before it, its "step" lines, one for each
///   search: `step` `vectors` `target` `recall` `qps`;
/// - "claim": one of the paper's (JudgeClaims, eval/paper);
/// - "data": with several sizes, one of them, followed by all its lines.
#pragma once

#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/figures.h"

namespace hmann::eval {

inline constexpr int kResultsVersion = 2;

/// Writes lines under a temporary name until the file is complete.
class ResultFile {
 public:
  /// Creates <folder>/results.jsonl.part. Errors: as FileToWrite; RESOURCE_EXHAUSTED,
  /// which the next two may return, too.
  absl::Status Open(const std::string& folder);
  absl::Status Write(Json line);
  /// Renames the file and returns all lines.
  absl::StatusOr<std::vector<Json>> Commit();

 private:
  absl::Status Check();

  std::string path_, part_;
  std::ofstream out_;
  std::vector<Json> lines_;
};

/// Reads a file that WriteResults or a ResultFile has written. Errors: of the file;
/// INVALID_ARGUMENT naming the unreadable line, or for another version.
absl::StatusOr<std::vector<Json>> ReadResults(const std::string& path);
/// Writes the file completely or not at all.
absl::Status WriteResults(const std::string& path, const std::vector<Json>& lines);

/// The lines of several results as those of one, for one page: of one machine, the same
/// queries, clock, n and k. A system whose name an earlier file has over the same data is
/// "NAME (FOLDER)", after its file's folder (all of its path if two have that name). The
/// first line is the first file's, with the targets and shapes of all, the fewest rounds,
/// and `merged`: `file` and `environment` of each. Curves are compared only with those of
/// their own file, whose rounds they share. Errors: of ReadResults; INVALID_ARGUMENT
/// naming what differs.
absl::StatusOr<std::vector<Json>> MergeResults(const std::vector<std::string>& paths);

/// The curves of the runs, one for each CurveSpec and shape, grouped by number of
/// threads.
std::vector<Curve> CurvesOf(const std::vector<Json>& lines);

/// The figures of the lines, for `--json`, the page and the tables: the first line's
/// keys, and
/// - `systems`, a row for each curve: `name` `system` `place` `data` `kind` `aside`
///   `threads` `in_flight`, its index (`library` `build` `build_seconds` ...),
///   `wall_over_cpu` `waits` `noisy` (runs), `points` and `targets`;
/// - each of `points`: `setting` `recall` `qps` `qps_mad` `front` `counters`;
/// - each of `targets`: `recall` `qps` `qps_mad` `at_recall` `ratio` `ratio_mad` (to the
///   reference with as many threads) `of_all_dram` `of_without_latency` (likewise, with
///   `_mad`), `mean_us` `p99_us` `cpu_us`, per query `distances` `estimates` `node_reads`
///   `node_bytes` `hops` `io_reads` `lines` (counters) and `blocks` (4 KiB that disks
///   gave, as the kernel counts), `limit_qps` `of_limit` (what memory or drive allow) and
///   `disk_share` (blocks x QPS over what the drive gives);
/// - `noise` of systems that ran twice: `system` `recall` `ratio` `ratio_mad`;
/// - `quiet`: `runs` `noisy` `busy` `steal` (medians over rounds);
/// - `memory` (of DRAM: `loads` `ns_a_line`), `disk` (`measured` `most_iops`, `memory`),
///   `sizes`, `load`, `runbooks` and their `steps`, `claims`, if there are such lines.
///
/// null: the curve does not reach the target, or nothing was requested, counted or
/// measured.
Json FiguresOf(const std::vector<Json>& lines);

/// Prints human-readable tables.
void PrintTables(const Json& figures, std::ostream& out);

}  // namespace hmann::eval
