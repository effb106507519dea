#include "server/core/file_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <utility>

#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann::server {
namespace {

/// A mapping of a guarded file, for the SIGBUS handler, which can take no lock. A slot is
/// free while `torn` is null; `torn` is written last.
struct Mapping {
  std::atomic<std::uintptr_t> begin{0}, end{0};
  std::atomic<std::atomic<bool>*> torn{nullptr};
};

constexpr std::size_t kMostMappings = 4096;
std::array<Mapping, kMostMappings> g_mappings;
std::mutex g_mappings_mutex;   // for writers of g_mappings
struct sigaction g_before {};  // the previous SIGBUS action

/// Handles a page that is gone from the file: maps zeros in its place and marks the file
/// as changed. SIGBUS in any other mapping gets the previous action.
void OnBus(int signal, siginfo_t* info, void*) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Mapping& mapping : g_mappings) {
    std::atomic<bool>* torn = mapping.torn.load(std::memory_order_acquire);
    if (torn == nullptr || address < mapping.begin.load() || address >= mapping.end.load())
      continue;
    const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    torn->store(true);
    auto* page = static_cast<std::byte*>(info->si_addr) - address % size;
    if (mmap(page, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
      errno = saved;
      return;
    }
  }
  sigaction(signal, &g_before, nullptr);  // raised again when the handler returns
}

void HandleSignals() {
  static const bool done = [] {
    struct sigaction bus {};
    bus.sa_sigaction = OnBus;
    bus.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &bus, &g_before);
    // The kernel sends SIGIO to ask for a lease back; Changed checks by itself.
    ::signal(SIGIO, SIG_IGN);
    return true;
  }();
  static_cast<void>(done);
}

void Forget(const std::atomic<bool>* torn) {
  const std::lock_guard lock(g_mappings_mutex);
  for (Mapping& mapping : g_mappings) {
    if (mapping.torn.load() == torn) mapping.torn.store(nullptr);
  }
}

std::int64_t TimeOf(const struct stat& of) {
  return of.st_mtim.tv_sec * std::int64_t{1'000'000'000} + of.st_mtim.tv_nsec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileGuard>> FileGuard::Take(const std::string& path) {
  HandleSignals();
  // Without O_NONBLOCK, a pipe would wait for a process that writes to it.
  HMANN_ASSIGN_OR_RETURN(FileDescriptor file, FileDescriptor::Open(path, O_RDONLY | O_NONBLOCK));
  const int fd = file.fd();
  std::unique_ptr<FileGuard> guard(new FileGuard(path, std::move(file)));
  if (fstat(fd, &guard->before_) != 0) return ErrnoError(errno, "stat", path);
  if (!S_ISREG(guard->before_.st_mode)) return InvalidArgument(path, ": not a regular file");
  guard->trusted_ = TimeOf(guard->before_);
  guard->lease_ = fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
  return guard;
}

FileGuard::~FileGuard() { Forget(&torn_); }

void FileGuard::Watch(std::span<const std::byte> mapped) {
  const std::lock_guard lock(g_mappings_mutex);
  const auto free = std::find_if(g_mappings.begin(), g_mappings.end(),
                                 [](const Mapping& m) { return m.torn.load() == nullptr; });
  if (free == g_mappings.end()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data());
  free->begin.store(begin);
  free->end.store(begin + mapped.size());
  free->torn.store(&torn_, std::memory_order_release);
}

absl::Status FileGuard::CheckOpened() {
  struct stat now {};
  if (stat(path_.c_str(), &now) != 0 || now.st_ino != before_.st_ino ||
      now.st_dev != before_.st_dev || Changed()) {
    return FailedPrecondition(path_,
                              " was replaced or written to while it was opened: start again");
  }
  return absl::OkStatus();
}

bool FileGuard::Changed() {
  if (torn_.load(std::memory_order_relaxed)) return true;
  const int fd = file_.fd();
  // If the kernel wants a lease back, F_GETLEASE returns the type it will become.
  if (lease_ ? fcntl(fd, F_GETLEASE) != F_RDLCK : Touched()) {
    const std::lock_guard lock(mutex_);
    // A lease is refused while a writer has the file open, and one that waits has it. The
    // first call asks this and lets none go on; what is wanted back ends with the lease.
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
      fcntl(fd, F_SETLEASE, F_UNLCK);
      lease_ = fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
      if (!lease_) return true;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
  struct stat now {};
  return fstat(fd, &now) != 0 || now.st_size != before_.st_size;
}

std::int64_t FileGuard::TimeNow() const {
  struct stat now {};
  return fstat(file_.fd(), &now) == 0 ? TimeOf(now) : 0;
}

void FileGuard::Release() {
  if (lease_) fcntl(file_.fd(), F_SETLEASE, F_UNLCK);
}

}  // namespace hmann::server
