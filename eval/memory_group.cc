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
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "hmann-eval.";  // hmann-eval.<pid>.<name>

struct Parent {
  std::string folder;
  int version = 0;
};

/// Files of the kernel take a value in one write.
absl::Status WriteValue(const std::string& path, const std::string& value) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoError(errno, "open", path);
  const ssize_t written = ::write(fd, value.data(), value.size());
  const int error = errno;
  ::close(fd);
  if (written == static_cast<ssize_t>(value.size())) return absl::OkStatus();
  return ErrnoError(error, absl::StrCat("write '", value, "' to").c_str(), path);
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

/// The number after `key` in a file of "key value" pairs; with an empty key, its first
/// number. 0 when it is not there.
std::uint64_t NumberIn(const std::string& path, const std::string& key) {
  const std::vector<std::string> words = Words(path);
  std::uint64_t value = 0;
  if (key.empty()) return !words.empty() && absl::SimpleAtoi(words[0], &value) ? value : 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == key) return absl::SimpleAtoi(words[i + 1], &value) ? value : 0;
  }
  return 0;
}

struct Mount {
  std::string root, point;
};

/// The mount of cgroup v1's memory controller, or of cgroup v2.
std::optional<Mount> FindMount(const std::string& mounts, int version) {
  std::ifstream in(mounts);
  for (std::string line; std::getline(in, line);) {
    // 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
    const std::vector<std::string> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<std::string> place = absl::StrSplit(halves[0], ' '),
                                   kind = absl::StrSplit(halves[1], ' ');
    if (place.size() < 5 || kind.size() < 3 || kind[0] != (version == 1 ? "cgroup" : "cgroup2"))
      continue;
    const std::vector<std::string> options = absl::StrSplit(kind[2], ',');
    if (version == 1 && std::find(options.begin(), options.end(), "memory") == options.end())
      continue;
    return Mount{place[3], place[4]};
  }
  return std::nullopt;
}

/// Our cgroup in such a hierarchy, as /proc/self/cgroup tells it.
std::optional<std::string> OwnPath(const std::string& self, int version) {
  std::ifstream in(self);
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (version == 1
            ? std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()
            : fields[0] == "0")
      return fields[2];
  }
  return std::nullopt;
}

/// Folders below which a group may be made, the best first: our own cgroup, and under v2
/// those above it.
std::vector<Parent> FindParents(const CgroupFiles& files) {
  std::vector<Parent> parents;
  for (const int version : {1, 2}) {
    const std::optional<Mount> mount = FindMount(files.mounts, version);
    const std::optional<std::string> own = OwnPath(files.self, version);
    if (!mount || !own) continue;
    absl::string_view below = *own;
    if (mount->root != "/")
      absl::ConsumePrefix(&below, mount->root);  // a container sees a part of the tree
    std::string folder = absl::StrCat(mount->point, below == "/" ? "" : below);
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) folder = mount->point;
    if (version == 2 && !HasWord(folder + "/cgroup.controllers", "memory")) continue;
    parents.push_back({folder, version});
    while (version == 2 && folder.size() > mount->point.size()) {
      folder.resize(folder.rfind('/'));
      parents.push_back({folder, version});
    }
  }
  return parents;
}

/// Removes groups whose maker is gone.
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
                                                const CgroupFiles& files) {
  if (limit_bytes < 1_MiB)
    return absl::InvalidArgumentError(
        absl::StrCat("memory limit: expected at least 1 MiB, found ", limit_bytes, " bytes"));
  std::vector<std::string> tried;
  for (const Parent& parent : FindParents(files)) {
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
    tried.emplace_back(absl::StrCat("no memory controller in ", files.mounts, " and ", files.self));
  return absl::FailedPreconditionError(
      absl::StrCat("a memory cgroup cannot be made (", absl::StrJoin(tried, "; "),
                   "): run as root; under systemd with `systemd-run --scope -p Delegate=yes ...`; "
                   "in a container, one whose /sys/fs/cgroup "
                   "can be written"));
}

absl::Status MemoryGroup::Limit(std::uint64_t bytes) {
  const std::string text = absl::StrCat(bytes);
  if (version_ == 2) {
    HMANN_RETURN_IF_ERROR(WriteValue(folder_ + "/memory.max", text));
    // Both are there only where the kernel accounts for swap; without swap they are not
    // needed.
    (void)WriteValue(folder_ + "/memory.swap.max", "0");
  } else {
    HMANN_RETURN_IF_ERROR(WriteValue(folder_ + "/memory.limit_in_bytes", text));
    HMANN_RETURN_IF_ERROR(WriteValue(folder_ + "/memory.swappiness", "0"));
    (void)WriteValue(folder_ + "/memory.memsw.limit_in_bytes", text);
  }
  limit_bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status MemoryGroup::Lower(std::uint64_t limit_bytes) {
  if (limit_bytes > limit_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(folder_, ": expected a limit below ",
                                                   limit_bytes_, " bytes, found ", limit_bytes));
  }
  return Limit(limit_bytes);
}

MemoryUse MemoryGroup::Use() const {
  const std::string stat = folder_ + "/memory.stat";
  if (version_ == 2) {
    return {NumberIn(folder_ + "/memory.peak", ""), NumberIn(stat, "anon"),
            NumberIn(folder_ + "/memory.events", "oom_kill")};
  }
  return {NumberIn(folder_ + "/memory.max_usage_in_bytes", ""), NumberIn(stat, "total_rss"),
          NumberIn(folder_ + "/memory.oom_control", "oom_kill")};
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

}  // namespace hmann
