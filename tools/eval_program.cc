#include "tools/eval_program.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann::tools {
namespace {

absl::StatusOr<std::string> FindEvalProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return ErrnoError(error.value(), "read", "/proc/self/exe");
  std::string path =
      (self.parent_path() / "../libexec/hmann/hmann-eval").lexically_normal().string();
  if (::access(path.c_str(), X_OK) == 0) return path;
  return NotFound("expected the program ", path,
                  ", found none there: install the package hmann-eval or the component eval "
                  "(cmake --install BUILD --component eval), "
                  "or build hmann-eval (./dev build hmann-eval)");
}

/// The argument vector for exec and spawn; it points into `path` and `arguments`.
std::vector<char*> Words(const std::string& path, const std::vector<std::string>& arguments) {
  std::vector<char*> words = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  return words;
}

}  // namespace

absl::Status BecomeEvalProgram(const std::vector<std::string>& arguments) {
  HMANN_ASSIGN_OR_RETURN(const std::string path, FindEvalProgram());
  ::execv(path.c_str(), Words(path, arguments).data());
  return ErrnoError(errno, "run", path);
}

absl::Status RunEvalProgram(const std::vector<std::string>& arguments) {
  HMANN_ASSIGN_OR_RETURN(const std::string path, FindEvalProgram());
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, path.c_str(), nullptr, nullptr, Words(path, arguments).data(), environ);
  if (failed != 0) return ErrnoError(failed, "run", path);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoError(errno, "wait for", path);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return Internal(path, " ", absl::StrJoin(arguments, " "), ": expected exit code 0, found ",
                  WIFEXITED(status) ? absl::StrCat(WEXITSTATUS(status))
                                    : absl::StrCat("signal ", WTERMSIG(status)));
}

}  // namespace hmann::tools
