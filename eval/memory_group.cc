#include "eval/memory_group.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "index/base/cgroup.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "hmann-eval.";  // hmann-eval.<pid>.<name>

struct Parent {
  std::string folder;
  int version = 0;
};

/// Kernel files take a value in a single write.
absl::Status WriteValue(const std::string& path, const std::string& value) {
  HMANN_ASSIGN_OR_RETURN(const FileDescriptor file, FileDescriptor::Open(path, O_WRONLY));
  const ssize_t written = ::write(file.fd(), value.data(), value.size());
  if (written == static_cast<ssize_t>(value.size())) return absl::OkStatus();
  return ErrnoError(errno, absl::StrCat("write '", value, "' to").c_str(), path);
}

/// The words of a small file; none if it cannot be read.
std::vector<std::string> Words(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool HasWord(const std::string& path, const std::string& word) {
  const std::vector<std::string> words = Words(path);
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Folders below which a group may be created, the best first: our own cgroup (as seen in
/// a container), and under v2 its ancestors.
std::vector<Parent> FindParents(const std::string& root) {
  std::vector<Parent> parents;
  std::error_code ignored;
  for (const int version : {1, 2}) {
    for (const std::string& folder : CgroupFolders(version == 1 ? "memory" : "", root)) {
      if (!fs::is_directory(folder, ignored)) continue;
      const bool has_own = !parents.empty() && parents.back().version == version;
      if (version == 1 && has_own) break;
      if (version == 2 && !has_own && !HasWord(folder + "/cgroup.controllers", "memory")) break;
      parents.push_back({folder, version});
    }
  }
  return parents;
}

/// Removes groups whose creator is gone.
void RemoveLeftOver(const std::string& parent) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const std::vector<std::string> parts = absl::StrSplit(name, '.');
    pid_t pid = 0;
    if (parts.size() < 3 || !absl::SimpleAtoi(parts[1], &pid) || pid <= 0) continue;
    if (::kill(pid, 0) != 0 && errno == ESRCH) ::rmdir(entry.path().c_str());
  }
}

}  // namespace

absl::StatusOr<MemoryGroup> MemoryGroup::Create(const std::string& name, std::uint64_t limit_bytes,
                                                const std::string& root) {
  if (limit_bytes < 1_MiB)
    return InvalidArgument("memory limit: expected at least 1 MiB, found ", limit_bytes, " bytes");
  std::vector<std::string> tried;
  for (const Parent& parent : FindParents(root)) {
    RemoveLeftOver(parent.folder);
    if (parent.version == 2 && !HasWord(parent.folder + "/cgroup.subtree_control", "memory")) {
      if (const absl::Status enabled =
              WriteValue(parent.folder + "/cgroup.subtree_control", "+memory");
          !enabled.ok()) {
        tried.emplace_back(enabled.message());
        continue;
      }
    }
    MemoryGroup group;
    const std::string folder = absl::StrCat(parent.folder, "/", kPrefix, ::getpid(), ".", name);
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
      tried.emplace_back(ErrnoError(errno, "mkdir", folder).message());
      continue;
    }
    group.folder_ = folder;
    group.version_ = parent.version;
    if (const absl::Status limited = group.Limit(limit_bytes); !limited.ok()) {
      tried.emplace_back(limited.message());
      continue;
    }
    return group;
  }
  if (tried.empty())
    tried.emplace_back("no memory controller in /proc/self/cgroup and /sys/fs/cgroup");
  return FailedPrecondition(
      "a memory cgroup cannot be made (", absl::StrJoin(tried, "; "),
      "): run as root; under systemd with `systemd-run --scope -p Delegate=yes ...`; "
      "in a container, one whose /sys/fs/cgroup "
      "can be written");
}

absl::Status MemoryGroup::Limit(std::uint64_t bytes) {
  const std::string text = absl::StrCat(bytes);
  if (version_ == 2) {
    HMANN_RETURN_IF_ERROR(WriteValue(folder_ + "/memory.max", text));
    // Both files exist only if the kernel accounts for swap. Without swap they are
    // unnecessary.
    (void)WriteValue(folder_ + "/memory.swap.max", "0");
  } else {
    // It may never be below the limit, so it goes first upward and last downward.
    (void)WriteValue(folder_ + "/memory.memsw.limit_in_bytes", text);
    HMANN_RETURN_IF_ERROR(WriteValue(folder_ + "/memory.limit_in_bytes", text));
    HMANN_RETURN_IF_ERROR(WriteValue(folder_ + "/memory.swappiness", "0"));
    (void)WriteValue(folder_ + "/memory.memsw.limit_in_bytes", text);
  }
  limit_bytes_ = bytes;
  return absl::OkStatus();
}

MemoryUse MemoryGroup::Use() const {
  const bool v2 = version_ == 2;
  const std::uint64_t peak =
      ReadNumber(folder_ + (v2 ? "/memory.peak" : "/memory.max_usage_in_bytes"));
  return {peak == kNoLimit ? 0 : peak, ReadKey(folder_ + "/memory.stat", v2 ? "anon" : "total_rss"),
          ReadKey(folder_ + (v2 ? "/memory.events" : "/memory.oom_control"), "oom_kill")};
}

MemoryGroup& MemoryGroup::operator=(MemoryGroup&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(version_, other.version_);
  std::swap(limit_bytes_, other.limit_bytes_);
  return *this;
}

MemoryGroup::~MemoryGroup() { Remove(); }

void MemoryGroup::Remove() {
  if (folder_.empty()) return;
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (::rmdir(folder_.c_str()) == 0 || errno != EBUSY) break;
    for (const std::string& word : Words(procs())) {
      pid_t pid = 0;
      if (absl::SimpleAtoi(word, &pid) && pid > 1 && pid != ::getpid()) ::kill(pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  folder_.clear();
}

}  // namespace hmann::eval
