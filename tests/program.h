/// Runs a real program from a test.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hmann {

struct Outcome {
  int exit_code = -1;  ///< -1 if a signal ended it
  int signal = 0;
  std::string out;  ///< stdout
  std::string err;
};

struct RunOptions {
  std::optional<std::uint64_t>
      most_file_bytes;      ///< RLIMIT_FSIZE: a write beyond it fails as on a full disk
  bool no_threads = false;  ///< the system refuses each, as at the limit of a container
  std::string stdout_to;    ///< a file instead of Outcome::out
  int stderr_to = -1;       ///< a descriptor instead of Outcome::err
  std::vector<std::pair<std::string, std::string>> environment;  ///< in addition to the test's own
};

/// A started program. The destructor kills it if it still runs, and waits for it.
class Program {
 public:
  explicit Program(const std::vector<std::string>& command, const RunOptions& options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  /// Waits until it has used this much CPU time (true) or has ended (false).
  bool UntilBusyFor(double seconds) const;
  Outcome Wait();

 private:
  pid_t pid_ = -1;
  std::filesystem::path folder_;  ///< of its output files
};

inline Outcome RunProgram(const std::vector<std::string>& command, const RunOptions& options = {}) {
  return Program(command, options).Wait();
}

/// Whether this run may take longer than a normal test run: ./dev soak-server.
inline bool Soaks() { return std::getenv("HMANN_SOAK") != nullptr; }

/// A new folder under testing::TempDir(), removed with its contents on destruction.
class TestFolder {
 public:
  explicit TestFolder(const std::string& name);
  ~TestFolder();
  std::string operator/(const std::string& file) const { return (path_ / file).string(); }
  const std::filesystem::path& path() const { return path_; }
  /// The names in it, sorted.
  std::vector<std::string> Files() const;

 private:
  std::filesystem::path path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& content);

/// Path of the `hmann` program that this build made.
std::string HmannProgram();

/// The same program with tiers that tests can make fail, stall, delay or check
/// (index/tiers/testing/decorators.h).
std::string FaultyHmannProgram();

/// Runs HmannProgram() with `arguments`.
inline Outcome Hmann(std::vector<std::string> arguments, const RunOptions& options = {}) {
  arguments.insert(arguments.begin(), HmannProgram());
  return RunProgram(arguments, options);
}

}  // namespace hmann
