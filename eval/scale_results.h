/// What growth over sizes tells: as one JSON object (of `--json` and of the page), and as
/// tables for the eye.
#pragma once

#include <ostream>

#include "eval/scale.h"

namespace hmann {

/// `title` `head` (the first line of scale.jsonl) `base` `queries` `targets` `sizes` (the
/// file's other lines), `growth`: for each `fast_bytes`, `tier`, `walk`, `target` and
/// `figure` (distances, estimates, slow_reads, rounds, io_reads, mean_us; and of the
/// builds, with null for the others, cpu_seconds and peak_anonymous_bytes): `points` (n,
/// value), `made_up` (how many of them), `logarithm` and `power` (`start` `slope`
/// `residuals` `rms`), `extrapolated` (`logarithm` and `power`: `value` `error`, null of
/// two sizes); and `goal`: `rows` `fast_memory_bytes` `structure` (that the planner
/// chooses) and `levels` (`fast_bytes` `fits`). Growth is read of the first shape.
Json ScaleFigures(const ScaleOptions& options, const Json& head, const Json& lines);

void PrintScaleTables(const Json& figures, std::ostream& out);

}  // namespace hmann
