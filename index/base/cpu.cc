#include "index/base/cpu.h"

#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "index/base/cgroup.h"

namespace hmann {
std::vector<std::string> CgroupFolders(const std::string& controller, const std::string& root) {
  std::vector<std::string> folders;
  std::ifstream self(root + "/proc/self/cgroup");
  for (std::string line; std::getline(self, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) == controllers.end())
      continue;
    const std::string mount =
        absl::StrCat(root, "/sys/fs/cgroup", controller.empty() ? "" : "/", controller);
    for (std::string path = fields[2]; !path.empty() && path != "/"; path.resize(path.rfind('/'))) {
      folders.push_back(mount + path);
    }
    folders.push_back(mount);
  }
  return folders;
}

std::uint64_t ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t value = 0;
  return file >> word && absl::SimpleAtoi(word, &value) ? value : kNoLimit;
}

std::uint64_t ReadKey(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::uint64_t value = 0;
    if (word == key && file >> value) return value;
  }
  return 0;
}

namespace {

/// Bytes left under one limit file. Droppable page cache does not count as used.
std::uint64_t LeftInCgroup(const std::string& folder, const char* limit, const char* usage,
                           const char* inactive) {
  const std::uint64_t most = ReadNumber(folder + "/" + limit);
  const std::uint64_t used = ReadNumber(folder + "/" + usage);
  if (most == kNoLimit || used == kNoLimit) return kNoLimit;
  const std::uint64_t held = used - std::min(used, ReadKey(folder + "/memory.stat", inactive));
  return most - std::min(most, held);
}

}  // namespace

int UsableCores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  double cores = ::sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask) : 1;
  for (const std::string& folder : CgroupFolders("")) {
    std::ifstream file(folder + "/cpu.max");
    std::string quota;
    double value = 0, period = 0;
    if (file >> quota >> period && absl::SimpleAtod(quota, &value) && period > 0)
      cores = std::min(cores, value / period);
  }
  for (const std::string& folder : CgroupFolders("cpu")) {
    const std::uint64_t quota = ReadNumber(folder + "/cpu.cfs_quota_us");
    const std::uint64_t period = ReadNumber(folder + "/cpu.cfs_period_us");
    if (quota != kNoLimit && period != kNoLimit && period > 0)
      cores = std::min(cores, static_cast<double>(quota) / static_cast<double>(period));
  }
  return std::max(1, static_cast<int>(std::ceil(cores)));
}

std::uint64_t UsableMemoryBytes() {
  std::uint64_t left = ReadKey("/proc/meminfo", "MemAvailable:") * 1024;
  if (left == 0) left = kNoLimit;
  for (const std::string& folder : CgroupFolders("")) {
    left = std::min(left, LeftInCgroup(folder, "memory.max", "memory.current", "inactive_file"));
  }
  for (const std::string& folder : CgroupFolders("memory")) {
    left = std::min(left, LeftInCgroup(folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                       "total_inactive_file"));
  }
  return left;
}

void StepBehind() {
  constexpr int kNice = 10, kWhoProcess = 1, kBestEffort = 2, kLeast = 7;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
  ::syscall(SYS_ioprio_set, kWhoProcess, 0, kBestEffort << 13 | kLeast);
}

void StepAside() {
  StepBehind();
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
}

void KeepNoFreedMemory() { ::mallopt(M_MMAP_THRESHOLD, 1 << 20); }

void BoundArenas() {
  constexpr std::uint64_t kOfArena = 256 << 20;  // a guess: they were seen to keep 50 MiB
  const auto most = static_cast<int>(
      std::clamp<std::uint64_t>(UsableMemoryBytes() / kOfArena, 1, 8 * std::uint64_t{256}));
  if (most < 8 * UsableCores()) ::mallopt(M_ARENA_MAX, most);
}

std::uint64_t PeakRssBytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::uint64_t AnonymousBytes(int pid) {
  const std::string status = "/proc/" + (pid == 0 ? "self" : std::to_string(pid)) + "/status";
  return (ReadKey(status, "RssAnon:") + ReadKey(status, "RssShmem:")) * 1024;
}

MemorySampler::MemorySampler()
    : thread_([this] {
        while (!stop_) {
          const std::uint64_t now = AnonymousBytes();
          for (std::uint64_t most = peak_; now > most && !peak_.compare_exchange_weak(most, now);) {
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      }) {}

MemorySampler::~MemorySampler() {
  stop_ = true;
  thread_.join();
}

std::uint64_t MemorySampler::TakePeak() { return std::max(peak_.exchange(0), AnonymousBytes()); }

}  // namespace hmann
