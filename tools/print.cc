#include "tools/print.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/errors.h"
#include "index/base/units.h"

namespace hmann::tools {

void PrintPhases(const std::vector<PhaseTime>& phases) {
  for (const PhaseTime& phase : phases) {
    std::cout << absl::StrFormat("  %-14s %s", phase.name, FormatDuration(phase.seconds));
    if (phase.seconds >= 0.1)
      std::cout << absl::StrFormat("  (%.1f cores)", phase.cpu_seconds / phase.seconds);
    std::cout << "\n";
  }
  if (phases.empty() || phases.back().serial_seconds <= 0) return;
  // Amdahl's law.
  constexpr int kMany = 32;
  const double all = phases.back().cpu_seconds, serial = phases.back().serial_seconds;
  std::cout << absl::StrFormat(
      "  %-14s %.1f %% of the CPU time; %d threads are at most %.0f times as fast as one\n",
      "serial", 100 * serial / all, kMany, all / (serial + (all - serial) / kMany));
}

namespace {

/// Appends JSON with a line for each member, but lists of numbers, as vectors, in one.
void AppendJson(const nlohmann::ordered_json& value, const std::string& indent, std::string* out) {
  const bool is_object = value.is_object();
  const bool has_lines = std::any_of(value.begin(), value.end(), [&](const auto& member) {
    return is_object || member.is_structured();
  });
  if (!value.is_structured() || !has_lines) {
    *out += JsonText(value);
    return;
  }
  const std::string inner = indent + "  ";
  const char* between = is_object ? "{\n" : "[\n";
  for (const auto& [name, member] : value.items()) {
    absl::StrAppend(out, between, inner, is_object ? JsonText(nlohmann::json(name)) + ": " : "");
    AppendJson(member, inner, out);
    between = ",\n";
  }
  absl::StrAppend(out, "\n", indent, is_object ? "}" : "]");
}

}  // namespace

absl::Status PrintJson(const nlohmann::ordered_json& object) {
  errno = 0;
  std::string text;
  AppendJson(object, "", &text);
  std::cout << text << std::endl;
  if (!std::cout.good()) return DataLoss("write to stdout: ", std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace hmann::tools
