#pragma once

#include "absl/status/status.h"
#include "hmann/types.h"

namespace hmann {

/// Checks the squared norm of a vector, summed in doubles. Errors: INVALID_ARGUMENT for 0
/// under cosine. Under the other metrics, INVALID_ARGUMENT if f32 distances to other such
/// vectors could overflow.
absl::Status CheckNorm(Metric metric, double squared_norm);

/// From this squared norm on, the squared distance of neighbors that are 4,096 times
/// nearer to each other than to the origin keeps its 24 bits. 4,096 is a guess of how
/// near they are.
constexpr double kLeastSquaredNorm = 0x1p-96;
/// Whether distances in f32 between vectors of at most this squared norm vanish.
inline bool Vanishes(DType dtype, Metric metric, double squared_norm) {
  return dtype == DType::kF32 && metric != Metric::kCosine && squared_norm > 0 &&
         squared_norm < kLeastSquaredNorm;
}

}  // namespace hmann
