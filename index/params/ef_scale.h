#pragma once

#include <cstdint>

#include "hmann/resolved_params.h"

namespace hmann {

/// Scales the effort of a search by one number, its *ef_scale*; `params` itself is
/// ef_scale 1. Recall rises with it. It scales:
///
/// - graph, and quantized without cells: `epsilon`, and the width as a bound for the
///   hardest queries; without `epsilon`, only the width;
/// - quantized from cells: the number of cells, the width and `error_bound`, each to a
///   power of its own. The powers were chosen on SIFT and words; elsewhere they are a
///   guess. `hmann tune` does not depend on them, since it tries others at ef_scale 1;
/// - multi-start and upper: `ef_l1`.
///
/// `n`, `n1`: vectors of the index and of L1, which no width exceeds. k does not change.
ResolvedParams WithEfScale(const ResolvedParams& params, double ef_scale, std::uint64_t n,
                           std::uint64_t n1);

/// The least ef_scale that makes a difference, to a calibration: below kLeastScale only
/// `epsilon` does, which then falls below 0.
constexpr double kLeastScale = 1.0 / 16;
double LeastEfScale(const ResolvedParams& at_one);

/// `epsilon` at ef_scale 1. The larger k is, the less far beyond the k-th neighbor are
/// the candidates that lead to a neighbor. On 1M SIFT vectors, 0.45, 0.18 and 0.07 give a
/// recall of about 0.97 for k = 1, 10 and 100.
float DefaultEpsilon(std::uint32_t k);

}  // namespace hmann
