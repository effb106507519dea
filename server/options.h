#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "hmann/hmann.h"
#include "server/connections/options.h"
#include "server/core/options.h"

namespace hmann::server {

struct ServerOptions {
  std::vector<IndexSpec> indexes;
  Aliases aliases;
  std::string listen = "127.0.0.1:50051";  ///< HOST:PORT; port 0 picks one; or unix:PATH
  int socket_mode = 0666;                  ///< rights of the socket of unix:PATH
  std::string http;           ///< HOST:PORT of /metrics, /livez and /readyz; empty: none
  OpenOptions open;           ///< tiers, for every index
  bool warm = false;          ///< read all mapped data once, even if it exceeds the
                              ///< free memory
  int threads = 0;            ///< concurrent searches; 0: UsableCores()
  std::uint32_t queue = 256;  ///< requests that may wait in each lane
  std::chrono::nanoseconds most_work = std::chrono::minutes(1);  ///< per request, one thread
  std::uint64_t most_bytes = 1 << 30;  ///< requests in flight plus replies
  std::chrono::nanoseconds default_deadline = std::chrono::seconds(10);  ///< for calls without one
  std::uint64_t scrub_bytes_per_second = 32 << 20;  ///< of data read in place; 0: off
  bool insecure = false;                            ///< allow non-loopback without TLS
  TlsFiles tls;
  struct Vald {
    std::string index;                ///< served as an agent of Vald; empty: none
    std::string listen;               ///< a second address, HOST:PORT; empty: none
    std::vector<std::string> agents;  ///< addresses that the discoverer tells; IPv4
  } vald;
  std::string tokens;  ///< file of accepted tokens (tokens.h); empty: open to all
  RequestLimits limits;
  ConnectionLimits connections;

  /// Errors: INVALID_ARGUMENT naming the option.
  absl::Status Validate() const;
};

}  // namespace hmann::server
