#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace hmann {

/// Threads that this process may really use: the smaller of its affinity mask and its
/// cgroup's CPU quota (v1 and v2), rounded up; at least 1.
int UsableCores();

/// Bytes that this process may still take before its cgroup (v1 or v2) or the host runs
/// out: the smaller of the host's MemAvailable and every enclosing cgroup's limit less
/// its working set.
std::uint64_t UsableMemoryBytes();

/// From here on malloc gives blocks of a MiB and more back to the kernel when they are
/// freed. By itself it keeps up to 64 MiB of them in each of its arenas, which a process
/// with a bound of memory cannot spare.
void KeepNoFreedMemory();

/// Highest resident size of this process so far.
std::uint64_t PeakRssBytes();

/// Resident bytes of a process that no file backs, which the kernel cannot let go:
/// anonymous and shared memory. 0: of this one; one that has ended takes none.
std::uint64_t AnonymousBytes(int pid = 0);

/// Looks at AnonymousBytes every few milliseconds, from a thread of its own.
class MemorySampler {
 public:
  MemorySampler();
  ~MemorySampler();
  MemorySampler(const MemorySampler&) = delete;
  MemorySampler& operator=(const MemorySampler&) = delete;

  /// The most since the last call, or since it was made.
  std::uint64_t TakePeak();

 private:
  std::atomic<std::uint64_t> peak_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace hmann
