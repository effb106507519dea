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

/// Parses "512MiB", "96GiB", "4KiB", "10M" (without the i, powers of 1000) or "123"
/// (bytes). Strict: no blanks, no fractions, no overflow.
absl::StatusOr<std::uint64_t> ParseSize(std::string_view text);

/// Parses a number of things: "20k", "1.5M", "1e9", or "1B" for a billion. Strict, as
/// ParseSize.
absl::StatusOr<std::uint64_t> ParseCount(std::string_view text);

/// Parses "800us", "2ms", "1s" or "150ns". Strict, as ParseSize.
absl::StatusOr<std::chrono::nanoseconds> ParseDuration(std::string_view text);

/// Human-readable: "1.2 GiB", "320 B".
std::string FormatSize(std::uint64_t bytes);

/// Human-readable: "1.2 us", "3.4 s", "2 min 5 s".
std::string FormatDuration(double seconds);

}  // namespace hmann
