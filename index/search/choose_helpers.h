#pragma once

#include "index/search/placed_index.h"

namespace hmann {

/// The smallest number of helper threads with which a query takes no longer than with any other, measured here and now over a few queries
/// on this index: 0, 1, or 2; never more than leave a core to the search (WarpX-PM's rule: giving up more threads than hide the copying
/// costs more than it saves). Takes some milliseconds; `index` must be placed, without helpers.
int ChooseHelpers(const PlacedIndex& index);

}  // namespace hmann
