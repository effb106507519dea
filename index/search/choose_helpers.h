#pragma once

#include <functional>

#include "index/search/placed_index.h"

namespace hmann {

/// The smallest number of helper threads with which a query takes no longer than with any
/// other, measured here and now over a few queries on this index: 0, 1, or 2; never more
/// than leave a core to the search (WarpX-PM's rule: giving up more threads than hide the
/// copying costs more than it saves). Takes some milliseconds; `index` must be placed,
/// without helpers.
int ChooseHelpers(const PlacedIndex& index);

/// The decision alone. `pass` gives the time of one pass over some queries with so many
/// helpers, infinity where it failed. Of each number 0 .. `most` the quickest pass
/// counts, out of several rounds in which the numbers alternate: what else the machine
/// does only adds time. The smallest number is taken that is at most 3 % slower than the
/// quickest.
int ChooseHelpersByPasses(int most, const std::function<double(int threads)>& pass);

}  // namespace hmann
