#include "tests/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

fs::path FreshFolder(const std::string& name) {
  static std::atomic<int> number{0};
  const fs::path path =
      fs::path(testing::TempDir()) / absl::StrCat("hmann_", name, "_", ::getpid(), "_", number++);
  fs::create_directories(path);
  return path;
}

void RefuseThreads() {
  constexpr auto kNumber = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {5, rules};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/// Runs in the child between fork and exec: async-signal-safe calls only.
[[noreturn]] void Become(char* const* arguments, const RunOptions& options, const char* out,
                         const char* err) {
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(::open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  const int err_to = ::open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(options.stderr_to >= 0 ? options.stderr_to : err_to, STDERR_FILENO);
  ::signal(SIGINT, SIG_DFL);
  if (options.most_file_bytes.has_value()) {
    const rlimit limit = {*options.most_file_bytes, *options.most_file_bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (options.no_threads) RefuseThreads();
  for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

/// User and system time of a process, in seconds; negative if it is gone.
double ProcessorSeconds(pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const std::size_t after_name = stat.rfind(')');
  if (after_name == std::string::npos) return -1;
  std::istringstream fields(stat.substr(after_name + 1));
  std::string field;
  double user = 0, system = 0;
  fields >> field;
  if (field == "Z" || field == "X") return -1;
  for (int i = 4; i <= 13; ++i) fields >> field;  // as numbered in proc(5)
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

Program::Program(const std::vector<std::string>& command, const RunOptions& options)
    : folder_(FreshFolder("run")) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::string out =
      options.stdout_to.empty() ? (folder_ / "out").string() : options.stdout_to;
  const std::string err = (folder_ / "err").string();
  pid_ = ::fork();
  if (pid_ == 0) Become(arguments.data(), options, out.c_str(), err.c_str());
}

Program::~Program() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Program::Signal(int signal) const { ::kill(pid_, signal); }

bool Program::UntilBusyFor(double seconds) const {
  while (true) {
    const double busy = ProcessorSeconds(pid_);
    if (busy < 0) return false;
    if (busy >= seconds) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Outcome Program::Wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  Outcome outcome;
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.out = ReadFile((folder_ / "out").string());
  outcome.err = ReadFile((folder_ / "err").string());
  return outcome;
}

TestFolder::TestFolder(const std::string& name) : path_(FreshFolder(name)) {}

TestFolder::~TestFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> TestFolder::Files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  out.close();
  ASSERT_TRUE(out.good()) << path;
}

namespace {

std::string Built(const char* program) {
  const char* build = std::getenv("HMANN_BINARY_DIR");
  return absl::StrCat(build == nullptr ? "build/release" : build, program);
}

}  // namespace

std::string HmannProgram() { return Built("/bin/hmann"); }
std::string FaultyHmannProgram() { return Built("/tests/hmann-faulty"); }

}  // namespace hmann
