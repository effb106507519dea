/// For benchmarks only: a server outside the measuring process.
#pragma once

#include <sys/types.h>

#include <string>

#include "server/options.h"

namespace hmann::server {

/// A server with `options` in a process that ends with this one. Create it before
/// anything of gRPC runs.
class ServerProcess {
 public:
  /// `core`: the core to run on; -1: all.
  explicit ServerProcess(const ServerOptions& options, int core = -1);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::string address() const;
  pid_t pid() const { return pid_; }
  /// The processor time that it has used, in microseconds.
  double CpuMicroseconds() const;

 private:
  pid_t pid_ = 0;
  int port_ = 0;
};

}  // namespace hmann::server
