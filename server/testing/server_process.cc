#include "server/testing/server_process.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "index/base/check.h"
#include "server/server.h"
#include "spdlog/spdlog.h"

namespace hmann::server {

ServerProcess::ServerProcess(const ServerOptions& options, int core) {
  int fds[2];
  HMANN_CHECK(pipe(fds) == 0);
  pid_ = fork();
  HMANN_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (core >= 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      HMANN_CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
    }
    spdlog::set_level(spdlog::level::err);
    const auto server = Server::Start(options);
    const int port = server.ok() ? (*server)->port() : 0;
    if (!server.ok()) std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    HMANN_CHECK(write(fds[1], &port, sizeof(port)) == sizeof(port));
    for (;;) pause();
  }
  close(fds[1]);
  HMANN_CHECK(read(fds[0], &port_, sizeof(port_)) == sizeof(port_));
  close(fds[0]);
}

ServerProcess::~ServerProcess() { kill(pid_, SIGKILL); }

std::string ServerProcess::address() const { return absl::StrCat("127.0.0.1:", port_); }

double ServerProcess::CpuMicroseconds() const {
  clockid_t clock = 0;
  timespec used{};
  HMANN_CHECK(clock_getcpuclockid(pid_, &clock) == 0 && clock_gettime(clock, &used) == 0);
  return static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) / 1e3;
}

}  // namespace hmann::server
