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
  std::string listen = "127.0.0.1:50051";  ///< HOST:PORT; port 0 picks one; or unix:PATH
  std::string http;           ///< HOST:PORT of /metrics, /livez and /readyz; empty: none
  OpenOptions open;           ///< tiers, for every index
  bool warm = false;          ///< read what is mapped once, also where it is larger than the
                              ///< memory left
  int threads = 0;            ///< searches side by side; 0: UsableCores()
  std::uint32_t queue = 256;  ///< requests that may wait for a thread of a lane
  std::chrono::nanoseconds most_work = std::chrono::minutes(1);  ///< of a request, one thread
  std::uint64_t most_bytes = 1 << 30;  ///< of the requests under way and their replies
  std::chrono::nanoseconds default_deadline =
      std::chrono::seconds(10);                     ///< of a call that has none
  std::uint64_t scrub_bytes_per_second = 32 << 20;  ///< of what is read in place; 0: never
  bool insecure = false;                            ///< listen beyond loopback without TLS
  TlsFiles tls;
  std::string tokens;  ///< file of those that may call (tokens.h); empty: everybody may
  RequestLimits limits;
  ConnectionLimits connections;

  /// Errors: INVALID_ARGUMENT naming the option.
  absl::Status Validate() const;
};

}  // namespace hmann::server
