#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/file.h"

namespace hmann::eval {

/// A program that we exchange lines with through its stdin and stdout; its stderr goes to
/// a file. It leads its own process group. The group is killed with it, and it dies when
/// we die. Move-only. Not thread-safe.
class ChildProcess {
 public:
  /// `command`: program (a path, or looked up in PATH) and arguments. `log` is truncated.
  /// `group`: the cgroup.procs file of a cgroup that the program enters before it is
  /// executed, so that all its allocations count there; "": our own.
  ///
  /// Errors: as pipe(2), fork(2) and open(2) of the log. A program that cannot be
  /// executed appears to end with code 127, after a line in the log.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& command,
                                            const std::string& log, const std::string& group = "");
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  /// Kills the program if it still runs.
  ~ChildProcess();

  pid_t pid() const { return pid_; }  ///< -1 when it does not run

  /// Sends a line. Errors: UNAVAILABLE if the program no longer reads.
  absl::Status WriteLine(const std::string& line);

  /// Returns the next line without its end. `timeout` zero waits forever. `cancelled` may
  /// be null. Errors: UNAVAILABLE saying how the program ended (exit code or signal);
  /// DEADLINE_EXCEEDED; CANCELLED; INVALID_ARGUMENT for a line above 1 MiB.
  absl::StatusOr<std::string> ReadLine(std::chrono::milliseconds timeout,
                                       const std::atomic<bool>* cancelled);

  /// Closes its stdin, waits up to `patience`, then kills it. Returns how it ended: "exit
  /// code 0", "signal 9 (Killed)".
  std::string Stop(std::chrono::milliseconds patience);

 private:
  void Kill();

  pid_t pid_ = -1;
  FileDescriptor in_, out_;
  std::string buffer_;
};

}  // namespace hmann::eval
