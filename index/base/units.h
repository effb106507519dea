#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hmann {

constexpr std::uint64_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr std::uint64_t operator""_MiB(unsigned long long n) { return n << 20; }
constexpr std::uint64_t operator""_GiB(unsigned long long n) { return n << 30; }

/// "512MiB", "96GiB", "4KiB", "10M" (powers of 1000 without the i), "123" (bytes).
/// Strict: no blanks, no fractions, no overflow.
absl::StatusOr<std::uint64_t> ParseSize(std::string_view text);

/// "800us", "2ms", "1s", "150ns". Strict, as ParseSize.
absl::StatusOr<std::chrono::nanoseconds> ParseDuration(std::string_view text);

/// For the eye: "1.2 GiB", "320 B".
std::string FormatSize(std::uint64_t bytes);

/// For the eye: "1.2 us", "3.4 s", "2 min 5 s".
std::string FormatDuration(double seconds);

}  // namespace hmann
