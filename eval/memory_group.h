#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann::eval {

/// The memory that the programs in a cgroup have taken.
struct MemoryUse {
  /// Highest charge so far, page cache included. 0 if the kernel does not report it.
  std::uint64_t peak_bytes = 0;
  std::uint64_t anonymous_bytes = 0;  ///< now: memory not backed by files
  std::uint64_t out_of_memory_kills = 0;
};

/// Our own memory cgroup. A program that starts in it gets this many bytes, its page
/// cache included, and no swap. The group is created below our current cgroup (cgroup v1
/// with a memory controller, or cgroup v2). With v2 it becomes a sibling if our cgroup
/// may have no children. Move-only.
///
/// The destructor kills what still runs in the group and removes it. The next Create
/// removes groups that a killed run has left behind.
class MemoryGroup {
 public:
  /// `name` tells groups of this process apart. `root`: as for CgroupFolders. Errors:
  /// FAILED_PRECONDITION saying what was tried and what would help; INVALID_ARGUMENT for
  /// a limit below 1 MiB.
  static absl::StatusOr<MemoryGroup> Create(const std::string& name, std::uint64_t limit_bytes,
                                            const std::string& root = "");
  MemoryGroup(MemoryGroup&& other) noexcept { *this = std::move(other); }
  MemoryGroup& operator=(MemoryGroup&& other) noexcept;
  ~MemoryGroup();

  int version() const { return version_; }  ///< of cgroups: 1 or 2
  /// Writing "0" to this file moves the writer into the group.
  std::string procs() const { return folder_ + "/cgroup.procs"; }
  std::uint64_t limit_bytes() const { return limit_bytes_; }
  /// Errors: those of the kernel, which may refuse to go below the current use.
  absl::Status Limit(std::uint64_t bytes);
  MemoryUse Use() const;

 private:
  MemoryGroup() = default;
  void Remove();

  std::string folder_;
  int version_ = 0;
  std::uint64_t limit_bytes_ = 0;
};

}  // namespace hmann::eval
