/// Whether anything else ran on the machine while something was measured.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace hmann {

/// What others took of the CPU time of all cores over an interval.
struct OthersShare {
  double steal = 0;  ///< other virtual machines
  double busy = 0;   ///< other processes of this machine

  /// Beyond these shares times of equal work were seen to differ by more than what is
  /// looked for between settings: a guess, from machines of 2 cores.
  bool quiet() const { return steal <= 0.02 && busy <= 0.1; }
  /// "others took 31 % of the CPU, other virtual machines 4 %".
  std::string Describe() const;
};

/// Begins an interval when it is made. Not known (no /proc/stat): nobody else ran.
class MachineLoad {
 public:
  /// `ours`: running processes besides this one that do the measured work.
  explicit MachineLoad(std::vector<pid_t> ours = {});

  /// From the beginning until now. The kernel counts in ticks of 10 ms: over less than
  /// 200 ms it says little. A process of `ours` that has ended counts as another's.
  OthersShare Others() const;

 private:
  struct Ticks {
    double total = 0, steal = 0, busy = 0, own = 0;
  };
  Ticks Read() const;

  std::vector<pid_t> ours_;
  Ticks begin_;
};

}  // namespace hmann
