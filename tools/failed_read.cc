#include "tools/failed_read.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace hmann::tools {
namespace {

// Nothing below may allocate or lock, because it runs in a signal handler.

void Say(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

/// If a line of /proc/self/maps ("begin-end rights offset device inode   path") describes
/// the mapping that holds `address`, prints its path and returns true.
bool SayPathIn(std::string_view line, std::uintptr_t address) {
  std::uintptr_t begin = 0, end = 0;
  const char* const last = line.data() + line.size();
  const char* const dash = std::from_chars(line.data(), last, begin, 16).ptr;
  if (dash == last || *dash != '-') return false;
  std::from_chars(dash + 1, last, end, 16);
  if (address < begin || address >= end) return false;
  const std::size_t path = line.find('/');
  if (path == std::string_view::npos) return false;
  Say(line.substr(path));
  return true;
}

void SayPathAt(std::uintptr_t address) {
  static std::array<char, 16384> text;  // a path has at most 4096 bytes
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  std::size_t held = 0;
  while (maps >= 0) {
    const ssize_t got = ::read(maps, text.data() + held, text.size() - held);
    if (got <= 0) break;
    held += static_cast<std::size_t>(got);
    std::string_view rest(text.data(), held);
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      if (SayPathIn(rest.substr(0, end), address)) return;
      rest.remove_prefix(end + 1);
    }
    held = rest.size() < text.size() ? rest.size() : 0;
    std::memmove(text.data(), rest.data(), held);
  }
  Say("a mapped file");
}

void OnBus(int, siginfo_t* info, void*) {
  // If several threads fail at once, the first reports and ends the others.
  static std::atomic<bool> taken{false};
  while (taken.exchange(true)) ::pause();
  Say("hmann: ");
  SayPathAt(reinterpret_cast<std::uintptr_t>(info->si_addr));
  Say(": a read failed (SIGBUS): its device failed, or the file was made shorter while it was in "
      "use\n");
  ::_exit(1);
}

}  // namespace

void NameFailedReads() {
  struct sigaction action {};
  action.sa_sigaction = OnBus;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace hmann::tools
