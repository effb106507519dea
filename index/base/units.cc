#include "index/base/units.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/errors.h"

namespace hmann {
namespace {

/// Splits "512MiB" into 512 and "MiB"; false unless digits come first and fit 64 bits.
bool SplitNumber(std::string_view text, std::uint64_t* number, std::string_view* suffix) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  *suffix = text.substr(digits);
  return digits > 0 && absl::SimpleAtoi(absl::string_view(text.data(), digits), number);
}

}  // namespace

absl::StatusOr<std::uint64_t> ParseSize(std::string_view text) {
  static constexpr std::pair<std::string_view, std::uint64_t> kSuffixes[] = {
      {"", 1},           {"B", 1},        {"KiB", 1_KiB},    {"MiB", 1_MiB}, {"GiB", 1_GiB},
      {"TiB", 1024_GiB}, {"k", 1000},     {"K", 1000},       {"M", 1000000}, {"G", 1000000000},
      {"KB", 1000},      {"MB", 1000000}, {"GB", 1000000000}};
  std::uint64_t number = 0;
  std::string_view suffix;
  if (SplitNumber(text, &number, &suffix)) {
    for (const auto& [name, factor] : kSuffixes) {
      if (suffix != name) continue;
      if (number > std::numeric_limits<std::uint64_t>::max() / factor) break;
      return number * factor;
    }
  }
  return InvalidArgument(
      "'", absl::string_view(text.data(), text.size()),
      "' is not a size: expected a whole number with an optional unit, as 512MiB, 96GiB or 10M");
}

absl::StatusOr<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  static constexpr std::pair<std::string_view, std::int64_t> kSuffixes[] = {
      {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  std::uint64_t number = 0;
  std::string_view suffix;
  if (SplitNumber(text, &number, &suffix)) {
    for (const auto& [name, factor] : kSuffixes) {
      if (suffix != name) continue;
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / factor))
        break;
      return std::chrono::nanoseconds(static_cast<std::int64_t>(number) * factor);
    }
  }
  return InvalidArgument(
      "'", absl::string_view(text.data(), text.size()),
      "' is not a time: expected a whole number with a unit, as 800us, 2ms or 1s");
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
