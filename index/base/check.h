#pragma once

namespace hmann::internal {
/// Prints the failed condition with its place on stderr and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
}  // namespace hmann::internal

/// For what cannot be: a violated invariant of our own. Never for input, files or devices
/// (those give absl::Status).
#define HMANN_CHECK(condition)                       \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? void()                                      \
       : ::hmann::internal::CheckFailed(#condition, __FILE__, __LINE__))
