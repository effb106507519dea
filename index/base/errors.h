/// Errors whose message is concatenated from parts:
/// `return InvalidArgument("k: expected at most ", n);`
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hmann {

/// A status with this code. Its message is the parts, concatenated as by absl::StrCat.
template <absl::StatusCode kCode>
struct ErrorOf {
  template <typename... Parts>
  absl::Status operator()(const Parts&... parts) const {
    return {kCode, absl::StrCat(parts...)};
  }
};

inline constexpr ErrorOf<absl::StatusCode::kInvalidArgument> InvalidArgument;
inline constexpr ErrorOf<absl::StatusCode::kNotFound> NotFound;
inline constexpr ErrorOf<absl::StatusCode::kResourceExhausted> ResourceExhausted;
inline constexpr ErrorOf<absl::StatusCode::kFailedPrecondition> FailedPrecondition;
inline constexpr ErrorOf<absl::StatusCode::kUnimplemented> Unimplemented;
inline constexpr ErrorOf<absl::StatusCode::kInternal> Internal;
inline constexpr ErrorOf<absl::StatusCode::kUnavailable> Unavailable;
inline constexpr ErrorOf<absl::StatusCode::kDataLoss> DataLoss;

}  // namespace hmann
