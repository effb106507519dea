#include "hmann/machine_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace hmann {
namespace {

std::string FirstLine(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

double TicksIn(absl::string_view field) {
  double ticks = 0;
  return absl::SimpleAtod(field, &ticks) ? ticks : 0;
}

double OwnTicks() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& value) {
    return static_cast<double>(value.tv_sec) + static_cast<double>(value.tv_usec) / 1e6;
  };
  return (seconds(usage.ru_utime) + seconds(usage.ru_stime)) *
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// User and system time of another process; 0 if it is gone.
double TicksOf(pid_t pid) {
  const std::string stat = FirstLine(absl::StrCat("/proc/", pid, "/stat"));
  // The name in parentheses may hold anything, also blanks and parentheses.
  const std::size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(stat).substr(name_end + 2), ' ');
  // The first field here is state, field 3 of proc(5); utime is 14, stime 15.
  return fields.size() > 12 ? TicksIn(fields[11]) + TicksIn(fields[12]) : 0;
}

}  // namespace

std::string OthersShare::Describe() const {
  return absl::StrFormat("others took %.0f %% of the CPU, other virtual machines %.0f %%",
                         100 * busy, 100 * steal);
}

MachineLoad::MachineLoad(std::vector<pid_t> ours) : ours_(std::move(ours)), begin_(Read()) {}

MachineLoad::Ticks MachineLoad::Read() const {
  Ticks ticks;
  // The fields: cpu  user nice system idle iowait irq softirq steal guest guest_nice. The
  // guest fields are part of user and nice.
  const std::string cpu = FirstLine("/proc/stat");
  const std::vector<absl::string_view> fields = absl::StrSplit(cpu, ' ', absl::SkipEmpty());
  for (std::size_t i = 1; i < std::min<std::size_t>(fields.size(), 9); ++i) {
    const double value = TicksIn(fields[i]);
    ticks.total += value;
    if (i == 8) ticks.steal = value;
    // Interrupts come from the devices, mostly on our behalf.
    if (i <= 3) ticks.busy += value;
  }
  ticks.own = OwnTicks();
  for (const pid_t pid : ours_) ticks.own += TicksOf(pid);
  return ticks;
}

OthersShare MachineLoad::Others() const {
  const Ticks now = Read();
  const double total = now.total - begin_.total;
  if (total <= 0) return {};
  const double others = now.busy - begin_.busy - (now.own - begin_.own);
  return {.steal = std::max(0.0, (now.steal - begin_.steal) / total),
          .busy = std::max(0.0, others / total)};
}

}  // namespace hmann
