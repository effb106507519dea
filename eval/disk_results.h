/// What a sweep on a disk tells: as JSON (of `--json`, of results.jsonl and of the page),
/// and as tables for the eye.
#pragma once

#include <ostream>
#include <vector>

#include "eval/disk_sweep.h"

namespace hmann {

/// Lines of results.jsonl that are known before the first run: one {"kind": "disk"} for
/// each number of threads, one {"kind": "memory"}.
std::vector<Json> DiskNotes(const DiskSweepResult& result);

/// ToJson of the sweep, and `disk`: `measured` (of each number of threads: `path` `tier`
/// `blocks` `threads`, `depths`: `depth` `iops` `mean_us` `p50_us` `p99_us`), `most_iops`
/// (of all of them), `memory` (`limit_bytes` `limit_given` `index_file_bytes`
/// `cgroup_version`, `contestants`: `contestant` `index_file` `index_file_bytes`
/// `limit_bytes` `loaded_bytes` `peak_bytes`) and `rows`: for recall@1 and then recall@k
/// (`at`), each `target` and each shape of a contestant: `contestant` `threads`
/// `in_flight` `qps` `qps_mad` `at_recall` `ratio` `ratio_mad` (to `reference` with as
/// many threads) `mean_us` `p99_us` `cpu_us` (of all its threads), and per query
/// `slow_reads` `slow_bytes` `rounds` `io_reads` (hmann's own counters) and `blocks` (4
/// KiB that the disk really read, as the kernel counts), and `disk_share`: blocks x QPS /
/// most_iops. All read along the curves at equal recall; null where a curve does not
/// reach or nobody counts.
Json ToJson(const DiskSweepResult& result);

void PrintDiskTables(const Json& figures, std::ostream& out);

}  // namespace hmann
