#pragma once

namespace hmann::internal {
/// Prints the failed condition with its location to stderr and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
}  // namespace hmann::internal

/// Checks an invariant of our own code. Never use it for input, files or devices: those
/// give an absl::Status.
#define HMANN_CHECK(condition)                       \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? void()                                      \
       : ::hmann::internal::CheckFailed(#condition, __FILE__, __LINE__))
