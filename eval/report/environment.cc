#include "eval/report/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "index/base/cpu.h"
#include "index/distance/distance.h"

namespace hmann {
namespace {

// As streams: files of the kernel claim to be empty.
std::string FirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  return std::getline(in, line) && !line.empty() ? std::string(absl::StripAsciiWhitespace(line))
                                                 : "unknown";
}

/// The value of "key<separator>value" in a file of such lines, without quotes.
std::string ValueIn(const std::string& path, const std::string& key, char separator) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(separator, 1));
    if (absl::StripAsciiWhitespace(parts.first) != key) continue;
    absl::string_view value = absl::StripAsciiWhitespace(parts.second);
    if (absl::ConsumePrefix(&value, "\"")) absl::ConsumeSuffix(&value, "\"");
    return std::string(value);
  }
  return "unknown";
}

/// "always [madvise] never" says madvise.
std::string Bracketed(const std::string& line) {
  const std::size_t open = line.find('['), close = line.find(']');
  return open == std::string::npos || close == std::string::npos || close < open
             ? line
             : line.substr(open + 1, close - open - 1);
}

}  // namespace

nlohmann::ordered_json DescribeEnvironment() {
  utsname name{};
  const bool named = ::uname(&name) == 0;
  const absl::StatusOr<std::string_view> simd = ChosenSimd();
  double load[1] = {0};
  const bool loaded = ::getloadavg(load, 1) == 1;
  return {{"cpu", ValueIn("/proc/cpuinfo", "model name", ':')},
          {"cores", UsableCores()},
          {"simd", simd.ok() ? std::string(*simd) : "unknown"},
          {"governor", FirstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")},
          {"huge_pages", Bracketed(FirstLine("/sys/kernel/mm/transparent_hugepage/enabled"))},
          {"kernel",
           named ? absl::StrCat(name.sysname, " ", name.release, " ", name.machine) : "unknown"},
          {"system", ValueIn("/etc/os-release", "PRETTY_NAME", '=')},
          {"memory_bytes", static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                               static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))},
          {"compiler", absl::StrCat("g++ ", __VERSION__)},
          {"load", loaded ? load[0] : 0},
          {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone())}};
}

}  // namespace hmann
