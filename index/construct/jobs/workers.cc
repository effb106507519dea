#include "index/construct/jobs/workers.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

extern char** environ;

namespace hmann {
namespace {

/// A started worker. The destructor ends it.
class Worker {
 public:
  Worker() = default;
  Worker(Worker&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), log_(std::move(other.log_)) {}
  Worker& operator=(Worker&&) = delete;
  ~Worker() {
    if (pid_ > 0) {
      ::kill(pid_, SIGTERM);
      int status = 0;
      ::waitpid(pid_, &status, 0);
    }
    if (!log_.empty()) ::unlink(log_.c_str());
  }

  absl::Status Start(std::vector<std::string> command, std::string log) {
    log_ = std::move(log);
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log_.c_str(),
                                       O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const int failed =
        ::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed == 0) return absl::OkStatus();
    pid_ = -1;
    return ErrnoError(failed, "start a worker", arguments[0]);
  }

  pid_t pid() const { return pid_; }
  /// Returns whether it has ended. Reports a failure on stderr with its reason.
  bool HasEnded() {
    if (pid_ < 0) return true;
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == 0) return false;
    const pid_t pid = std::exchange(pid_, -1);
    if (status == 0) return true;
    const absl::StatusOr<std::string> log = ReadTextFile(log_, 1 << 20);
    std::fprintf(stderr, "worker %d ended with %s %d; what it left is made here. %s\n",
                 static_cast<int>(pid), WIFSIGNALED(status) ? "signal" : "code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                 log.ok() ? std::string(absl::StripSuffix(*log, "\n")).c_str() : "it said nothing");
    return true;
  }

 private:
  pid_t pid_ = -1;
  std::string log_;  ///< its output
};

}  // namespace

absl::Status LocalWorkers::Run(const std::string& stage, std::span<const std::size_t> jobs,
                               const TaskContext& job, Phases& phases,
                               const std::function<void()>& look) const {
  // A single job is not worth a process.
  if (jobs.size() < 2 || count < 1) return absl::OkStatus();
  std::vector<Worker> workers;
  const std::size_t parts = std::min<std::size_t>(static_cast<std::size_t>(count), jobs.size());
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = jobs[part * jobs.size() / parts];
    const std::size_t last = jobs[(part + 1) * jobs.size() / parts - 1];
    HMANN_RETURN_IF_ERROR(workers.emplace_back().Start(
        {program, "build-job", "--work", work, "--stage", stage, "--jobs",
         absl::StrCat(first, "-", last), "--threads", absl::StrCat(threads), "--build-memory",
         absl::StrCat(memory), "--ends-with", absl::StrCat(::getpid())},
        absl::StrCat(work, "/worker-", part, ".log")));
  }
  for (bool at_work = true; at_work;) {
    HMANN_RETURN_IF_ERROR(job.CheckCancelled());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    at_work = false;
    std::uint64_t bytes = AnonymousBytes();
    for (Worker& worker : workers) {
      if (worker.HasEnded()) continue;
      at_work = true;
      bytes += AnonymousBytes(worker.pid());
    }
    phases.NoteAnonymous(bytes);
    look();
  }
  return absl::OkStatus();
}

}  // namespace hmann
