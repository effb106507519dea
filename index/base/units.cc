#include "index/base/units.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/errors.h"

namespace hmann {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

/// Parses "512MiB" or "1.5GiB" in units of 1; nullopt unless a number comes first, then
/// one of `units` in any case, and the value is whole and at most `most`.
std::optional<std::uint64_t> Parse(std::string_view text, std::span<const Unit> units,
                                   std::uint64_t most) {
  // "1e9" is a number, but not "1e" of "1exa".
  std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  if (end + 1 < text.size() && text[end] == 'e' && absl::ascii_isdigit(text[end + 1]))
    end = std::min(text.find_first_not_of("0123456789", end + 1), text.size());
  const absl::string_view digits(text.data(), end), unit(text.data() + end, text.size() - end);
  std::uint64_t whole = 0;
  double number = 0;
  const bool is_whole = absl::SimpleAtoi(digits, &whole);
  if (!is_whole && !absl::SimpleAtod(digits, &number)) return std::nullopt;
  for (const auto& [name, factor] : units) {
    if (!absl::EqualsIgnoreCase(unit, absl::string_view(name.data(), name.size()))) continue;
    if (is_whole) return whole <= most / factor ? std::optional(whole * factor) : std::nullopt;
    number *= static_cast<double>(factor);
    constexpr double kExact = 1ull << 53;
    if (number >= 0 && number <= std::min(kExact, static_cast<double>(most)) &&
        number == std::floor(number))
      return static_cast<std::uint64_t>(number);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::uint64_t> ParseSize(std::string_view text) {
  static constexpr Unit kUnits[] = {{"", 1},        {"B", 1},        {"KiB", 1_KiB},
                                    {"MiB", 1_MiB}, {"GiB", 1_GiB},  {"TiB", 1024_GiB},
                                    {"k", 1000},    {"M", 1000000},  {"G", 1000000000},
                                    {"KB", 1000},   {"MB", 1000000}, {"GB", 1000000000}};
  if (const auto size = Parse(text, kUnits, std::numeric_limits<std::uint64_t>::max()))
    return *size;
  return InvalidArgument(
      "'", absl::string_view(text.data(), text.size()),
      "' is not a size: expected a number with an optional unit, as 512MiB, 96GiB or 10M");
}

absl::StatusOr<std::uint64_t> ParseCount(std::string_view text) {
  static constexpr Unit kUnits[] = {
      {"", 1}, {"k", 1000}, {"M", 1000000}, {"G", 1000000000}, {"B", 1000000000}};
  if (const auto count = Parse(text, kUnits, std::numeric_limits<std::uint64_t>::max()))
    return *count;
  return InvalidArgument("'", absl::string_view(text.data(), text.size()),
                         "' is not a whole number: expected one as 250, 20k, 10M or 1e9");
}

absl::StatusOr<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  static constexpr Unit kUnits[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  if (const auto time = Parse(text, kUnits, std::numeric_limits<std::int64_t>::max()))
    return std::chrono::nanoseconds(*time);
  return InvalidArgument("'", absl::string_view(text.data(), text.size()),
                         "' is not a time: expected a number with a unit, as 800us, 2ms or 1s");
}

std::string FormatSize(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string FormatDuration(double seconds) {
  if (seconds < 1e-6) return absl::StrFormat("%.0f ns", seconds * 1e9);
  if (seconds < 1e-3) return absl::StrFormat("%.1f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds < 60) return absl::StrFormat("%.1f s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %d min", whole / 3600, whole / 60 % 60);
}

}  // namespace hmann
