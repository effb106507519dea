#include "eval/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestLine = 1_MiB;

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status))
    return absl::StrCat("signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")");
  return absl::StrCat("exit code ", WEXITSTATUS(status));
}

/// Runs between fork and exec, so it makes only calls that are safe there.
[[noreturn]] void GiveUp(const char* what) {
  const char* reason = ::strerror(errno);
  for (const char* text : {what, ": ", reason, "\n"}) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, ::strlen(text));
  }
  ::_exit(127);
}

[[noreturn]] void Become(char* const* argv, int in, int out, int log, int group, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  if (group >= 0 && ::write(group, "0", 1) != 1) GiveUp("entering its cgroup");
  ::execvp(argv[0], argv);
  GiveUp(argv[0]);
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& command,
                                                 const std::string& log, const std::string& group) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  HMANN_RETURN_IF_ERROR(FileToWrite(log).status());
  HMANN_ASSIGN_OR_RETURN(const FileDescriptor log_file,
                         FileDescriptor::Open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  FileDescriptor group_file;
  if (!group.empty()) {
    HMANN_ASSIGN_OR_RETURN(group_file, FileDescriptor::Open(group, O_WRONLY));
  }
  // stdin is a socket, since writing to one without a reader can suppress SIGPIPE.
  int in[2], out[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
    return ErrnoError(errno, "socketpair", command[0]);
  ChildProcess child;
  child.in_ = FileDescriptor(in[1]);
  const FileDescriptor its_in(in[0]);
  if (::pipe2(out, O_CLOEXEC) != 0) return ErrnoError(errno, "pipe", command[0]);
  child.out_ = FileDescriptor(out[0]);
  const FileDescriptor its_out(out[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) Become(argv.data(), in[0], out[1], log_file.fd(), group_file.fd(), parent);
  if (pid < 0) return ErrnoError(errno, "fork", command[0]);
  child.pid_ = pid;
  ::setpgid(pid, pid);  // also in the parent: either may come first
  return child;
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

ChildProcess::~ChildProcess() { Kill(); }

void ChildProcess::Kill() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

absl::Status ChildProcess::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t sent = ::send(in_.fd(), text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Unavailable("it does not listen: ", std::strerror(errno));
    done += static_cast<std::size_t>(sent);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ChildProcess::ReadLine(milliseconds timeout,
                                                   const std::atomic<bool>* cancelled) {
  const Clock::time_point start = Clock::now();
  std::size_t searched = 0;
  while (true) {
    if (const std::size_t end = buffer_.find('\n', searched); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    searched = buffer_.size();
    if (searched > kLongestLine)
      return InvalidArgument("it printed a line of more than ", kLongestLine, " bytes");
    if (cancelled != nullptr && cancelled->load()) return absl::CancelledError("cancelled");
    milliseconds slice(200);
    if (timeout.count() > 0) {
      const auto left = timeout - std::chrono::duration_cast<milliseconds>(Clock::now() - start);
      if (left.count() <= 0)
        return absl::DeadlineExceededError(absl::StrCat(
            "it was silent for ", FormatDuration(1e-3 * static_cast<double>(timeout.count()))));
      slice = std::min(slice, left);
    }
    pollfd waiting = {out_.fd(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(slice.count())) <= 0) continue;
    char chunk[4096];
    const ssize_t got = ::read(out_.fd(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Unavailable("it ended with ", Stop(milliseconds(2000)));
    buffer_.append(chunk, static_cast<std::size_t>(got));
  }
}

std::string ChildProcess::Stop(milliseconds patience) {
  in_ = FileDescriptor();
  if (pid_ <= 0) return "nothing: it was not running";
  const Clock::time_point start = Clock::now();
  int status = 0;
  while (Clock::now() - start < patience) {
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      ::kill(-std::exchange(pid_, -1), SIGKILL);  // kills what it may have left behind
      return HowItEnded(status);
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
  Kill();
  return "nothing: it had to be killed";
}

}  // namespace hmann::eval
