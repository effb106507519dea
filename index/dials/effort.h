#pragma once

#include <cstdint>

#include "hmann/dials.h"

namespace hmann {

/// How far a search goes on is scaled by one number, its *effort*: `dials` are effort 1.
/// Best-first, and quantised without cells: `epsilon`, and the width as a bound on what
/// the hardest queries take, or the width alone where there is no epsilon. From cells:
/// their number, the width and `error_bound`, each to a power of its own (chosen on SIFT
/// and words: elsewhere a guess, which `hmann tune` need not share, since it tries others
/// at effort 1). Multi-start and upper: `ef_l1`. Recall rises with it.
///
/// `n`, `n1`: vectors of the index and of L1, which no width exceeds; k is held.
Dials WithEffort(const Dials& dials, double effort, std::uint64_t n, std::uint64_t n1);

/// `epsilon` of effort 1. The more neighbours are asked for, the less far beyond the
/// last of them lies what leads to one: on 1M SIFT vectors 0.45, 0.18 and 0.07 give a
/// recall of about 0.97 for k = 1, 10 and 100.
float DefaultEpsilon(std::uint32_t k);

}  // namespace hmann
