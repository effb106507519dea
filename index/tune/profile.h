#pragma once

#include <cstdint>
#include <string>

#include "index/tune/tune.h"

namespace hmann {

MachineIdentity ThisMachine();

/// ns per line of `memory` with `loads` in flight, interpolated; the last figure beyond
/// what was measured. `loads` is at least 1.
double NsPerLine(const MemoryProfile& memory, double loads);
/// Why `profile` is not of this machine, a clause for each difference ("8 cores, here
/// 2"); empty: it is.
std::string MachineDifference(const MachineIdentity& profile, const MachineIdentity& here);

}  // namespace hmann
