#pragma once

#include "absl/status/status.h"
#include "hmann/types.h"

namespace hmann {

/// Checks the squared norm of a vector, summed in doubles. Errors: INVALID_ARGUMENT for 0
/// under cosine. Under the other metrics, INVALID_ARGUMENT if f32 distances to other such
/// vectors could overflow.
absl::Status CheckNorm(Metric metric, double squared_norm);

}  // namespace hmann
