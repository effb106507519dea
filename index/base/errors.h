/// Errors whose message is concatenated from parts:
/// `return InvalidArgument("k: expected at most ", n);`
#pragma once

#include <cstdint>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

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

/// The error of the first item that has one, in whatever order they are noted. Not
/// thread-safe.
struct FirstError {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::uint64_t item = kNone;
  absl::Status status;

  void Note(std::uint64_t of, const absl::Status& error) {
    if (error.ok() || of >= item) return;
    item = of;
    status = error;
  }
  /// The error, prefixed with `words` and the number of its item.
  absl::Status Named(absl::string_view words) const {
    if (status.ok()) return status;
    return {status.code(), absl::StrCat(words, item, ": ", status.message())};
  }
};

/// For a thread that the system refuses.
inline constexpr char kAllowThreads[] = "allow more threads (ulimit -u, pids.max of the cgroup)";
inline absl::Status ThreadRefused(const std::system_error& error) {
  return ResourceExhausted("a thread could not start: ", error.what(), ": ", kAllowThreads);
}

}  // namespace hmann
