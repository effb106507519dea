#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann::eval {

/// What the programs in a memory cgroup have taken.
struct MemoryUse {
  std::uint64_t peak_bytes =
      0;  ///< highest charge so far, page cache included; 0 where the kernel does not tell
  std::uint64_t anonymous_bytes = 0;  ///< now: memory that is no file's
  std::uint64_t out_of_memory_kills = 0;
};

/// A memory cgroup of our own: who starts in it gets so many bytes and no swap, his page
/// cache included. Made below the cgroup that we are in (cgroup v1 with a memory
/// controller, or cgroup v2; there beside it where ours may have no children). Move-only.
///
/// The destructor ends what still runs in it and removes it. Those that a killed run has
/// left behind are removed by the next Create.
class MemoryGroup {
 public:
  /// `name` tells groups of this process apart. Errors: FAILED_PRECONDITION saying what
  /// was tried and what would help; INVALID_ARGUMENT for a limit below 1 MiB. `root`: as
  /// CgroupFolders has it.
  static absl::StatusOr<MemoryGroup> Create(const std::string& name, std::uint64_t limit_bytes,
                                            const std::string& root = "");
  MemoryGroup(MemoryGroup&& other) noexcept { *this = std::move(other); }
  MemoryGroup& operator=(MemoryGroup&& other) noexcept;
  ~MemoryGroup();

  int version() const { return version_; }  ///< of cgroups: 1 or 2
  /// "0" written here moves the writer in.
  std::string procs() const { return folder_ + "/cgroup.procs"; }
  std::uint64_t limit_bytes() const { return limit_bytes_; }
  /// Errors: those of the kernel, which may refuse to go below what is in use.
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
