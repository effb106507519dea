#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace hmann {

/// Threads that this process can really use: the smaller of its affinity mask and its
/// cgroup's CPU quota (v1 and v2), rounded up; at least 1.
int UsableCores();

/// Bytes that this process can still take before its cgroup (v1 or v2) or the host runs
/// out. This is the smallest of the host's MemAvailable and, for every enclosing cgroup,
/// the limit less the working set.
std::uint64_t UsableMemoryBytes();

/// Puts this thread, and those that it will start, behind the others of this process. The
/// disk still serves it when others never pause, unlike in the idle class.
void StepBehind();
/// The same, except that it computes only while a core has nothing else to do. It cannot
/// step forward again.
void StepAside();

/// Makes malloc return freed blocks of 1 MiB and more to the kernel from now on. By
/// default it keeps up to 64 MiB of them in each arena, which a process with a memory
/// bound cannot spare.
void KeepNoFreedMemory();

/// Lets malloc have an arena per 256 MiB that this process can use: each keeps memory
/// that others have freed, and by default there are eight per core. To be called before
/// there are threads.
void BoundArenas();

/// Highest resident size of this process so far.
std::uint64_t PeakRssBytes();

/// Resident bytes of process `pid` that no file backs: anonymous and shared memory, which
/// the kernel cannot drop. 0 means this process. A process that has ended takes none.
std::uint64_t AnonymousBytes(int pid = 0);

/// Samples AnonymousBytes every few milliseconds from its own thread.
class MemorySampler {
 public:
  MemorySampler();
  ~MemorySampler();
  MemorySampler(const MemorySampler&) = delete;
  MemorySampler& operator=(const MemorySampler&) = delete;

  /// The peak since the last call, or since construction.
  std::uint64_t TakePeak();

 private:
  std::atomic<std::uint64_t> peak_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace hmann
