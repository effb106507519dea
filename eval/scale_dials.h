/// Dials that reach a recall: a grid, and those of it that learning queries leave.
#pragma once

#include <string>
#include <vector>

#include "eval/figures.h"
#include "index/distance/distance.h"

namespace hmann {

/// Settings of a walk that are worth trying with L0 on a tier: from a recall far below
/// 0.9 to one far above 0.99. `cells`: the index has codes of nodes. {}: the index cannot
/// run that walk.
Json DialGrid(const std::string& walk, bool block_tier, bool cells, Metric metric);

/// The same runs with what a query cost in the place of the clock, so that which settings
/// a curve is made of does not hang on a busy machine: on a device its reads, and five
/// for each round (a round costs as much more than a read); elsewhere the microseconds of
/// its cache lines and rounds, about. QPS by the clock becomes what was observed as
/// "qps". Settings that were not counted are left out.
ContestantRuns ByCost(const ContestantRuns& runs, bool block_tier, const Reading& reading);

/// Of what was run on learning queries (as ByCost gives it), the settings around each
/// target: two of the front below it and two above, as other queries reach a little more
/// or less. Where a target is not reached, the last two.
Json SettingsAround(const ContestantRuns& learned, const Reading& reading);

}  // namespace hmann
