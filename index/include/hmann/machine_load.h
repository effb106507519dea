/// Detects other work on the machine during a measurement.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace hmann {

/// Share of the CPU time of all cores that others used over an interval.
struct OthersShare {
  double steal = 0;  ///< other virtual machines
  double busy = 0;   ///< other processes of this machine

  /// Above these shares, times of equal work were observed to differ by more than the
  /// differences sought between settings. The limits are a guess, from machines with 2
  /// cores.
  bool quiet() const { return steal <= 0.02 && busy <= 0.1; }
  /// "others took 31 % of the CPU, other virtual machines 4 %".
  std::string Describe() const;
};

/// Starts an interval at construction. Without /proc/stat it reports that nothing else
/// ran.
class MachineLoad {
 public:
  /// `ours`: running processes, other than this one, that do the measured work.
  explicit MachineLoad(std::vector<pid_t> ours = {});

  /// The shares from construction until now. The kernel counts in ticks of 10 ms, so
  /// intervals below 200 ms say little. A process of `ours` that has ended counts as
  /// foreign.
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
