#pragma once

#include <cstdint>
#include <string>

#include "index/tune/tune.h"

namespace hmann {

MachineIdentity ThisMachine();

/// ns per line of `memory` with `loads` in flight, interpolated; the last figure beyond
/// what was measured. `loads` is at least 1.
double NsPerLine(const MemoryProfile& memory, double loads);
/// ns of a distance of these vectors in cache: measured, or scaled by bytes from the
/// nearest dimension of the dtype; 0: none of the dtype.
double NsPerDistance(const DeviceProfile& profile, DType dtype, std::uint32_t dim);
/// ns of an estimate of a gathered code, likewise scaled; 0: none at all.
double NsPerEstimate(const DeviceProfile& profile, std::uint32_t dim, std::uint32_t bits);

/// Why `profile` is not of this machine, a clause for each difference ("8 cores, here
/// 2"); empty: it is.
std::string MachineDifference(const MachineIdentity& profile, const MachineIdentity& here);

}  // namespace hmann
