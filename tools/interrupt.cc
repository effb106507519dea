#include "tools/interrupt.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace hmann::tools {
namespace {

std::atomic<bool> interrupted{false};
std::atomic<int> by{0};
static_assert(std::atomic<bool>::is_always_lock_free, "the signal handler stores to it");

void OnSignal(int signal) {
  const int saved = errno;
  by.store(signal);
  interrupted.store(true);
  static constexpr char kNote[] = "\nhmann: stopping; interrupt again to end it at once\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kNote, sizeof kNote - 1);
  errno = saved;
}

}  // namespace

const std::atomic<bool>* CancelOnInterrupt() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);  // nohup and background jobs ignore SIGINT: let them
  }
  return &interrupted;
}

int EndAsInterrupted() {
  if (by != 0) {
    std::signal(by, SIG_DFL);
    std::raise(by);
  }
  return 1;
}

}  // namespace hmann::tools
