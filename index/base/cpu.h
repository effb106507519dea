#pragma once

#include <cstdint>

namespace hmann {

/// Threads that this process may really use: the smaller of its affinity mask and its
/// cgroup's CPU quota (v1 and v2), rounded up; at least 1.
int UsableCores();

/// Bytes that this process may still take before its cgroup (v1 or v2) or the host runs
/// out: the smaller of the host's MemAvailable and every enclosing cgroup's limit less
/// its working set.
std::uint64_t UsableMemoryBytes();

/// Highest resident size of this process so far.
std::uint64_t PeakRssBytes();

}  // namespace hmann
