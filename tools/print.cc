#include "tools/print.h"

#include <cerrno>
#include <cstring>
#include <iostream>

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
}

absl::Status PrintJson(const nlohmann::ordered_json& object) {
  errno = 0;
  std::cout << JsonText(object, 2) << std::endl;
  if (!std::cout.good()) return DataLoss("write to stdout: ", std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace hmann::tools
