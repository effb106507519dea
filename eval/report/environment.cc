#include "eval/report/environment.h"

#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "hmann/tune.h"

namespace hmann::eval {
namespace {

// Uses streams, since kernel files claim to be empty.
std::string FirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  return std::getline(in, line) && !line.empty() ? std::string(absl::StripAsciiWhitespace(line))
                                                 : "unknown";
}

/// Reads the quoted text of PRETTY_NAME="Debian GNU/Linux 12 (bookworm)".
std::string SystemName() {
  std::ifstream in("/etc/os-release");
  for (std::string line; std::getline(in, line);) {
    absl::string_view name = line;
    if (!absl::ConsumePrefix(&name, "PRETTY_NAME=")) continue;
    if (absl::ConsumePrefix(&name, "\"")) absl::ConsumeSuffix(&name, "\"");
    return std::string(name);
  }
  return "unknown";
}

/// The bracketed word: "madvise" in "always [madvise] never".
std::string Bracketed(const std::string& line) {
  const std::size_t open = line.find('['), close = line.find(']');
  return open == std::string::npos || close == std::string::npos || close < open
             ? line
             : line.substr(open + 1, close - open - 1);
}

std::string CommandOfThisProcess() {
  std::ifstream in("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(std::move(word));
  return ShellCommand(std::move(words));
}

}  // namespace

std::string ShellCommand(std::vector<std::string> words) {
  const auto plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-_./:=,@%+", c);
  };
  for (std::string& word : words) {
    if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) continue;
    word = absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
  }
  if (!words.empty()) words[0] = words[0].substr(words[0].rfind('/') + 1);
  if (!words.empty() && words[0] == "hmann-eval") words[0] = "hmann eval";
  return absl::StrJoin(words, " ");
}

nlohmann::ordered_json DescribeEnvironment() {
  utsname name{};
  const bool named = ::uname(&name) == 0;
  const MachineIdentity machine = ThisMachine();
  double load[1] = {0};
  const bool loaded = ::getloadavg(load, 1) == 1;
  return {{"cpu", machine.cpu_model},
          {"cores", machine.cores},
          {"simd", machine.simd.empty() ? "unknown" : machine.simd},
          {"governor", FirstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")},
          {"huge_pages", Bracketed(FirstLine("/sys/kernel/mm/transparent_hugepage/enabled"))},
          {"kernel",
           named ? absl::StrCat(name.sysname, " ", name.release, " ", name.machine) : "unknown"},
          {"system", SystemName()},
          {"memory_bytes", machine.memory_bytes},
          {"compiler", absl::StrCat("g++ ", __VERSION__)},
          {"load", loaded ? load[0] : 0},
          {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone())},
          {"command", CommandOfThisProcess()}};
}

}  // namespace hmann::eval
