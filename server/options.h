#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/hmann.h"

namespace hmann {

/// An index to serve, and the name that clients call it by.
struct IndexSpec {
  std::string name;  ///< letters, digits, '.', '_', '-'; at most 64
  std::string path;

  /// "NAME=PATH". Errors: INVALID_ARGUMENT.
  static absl::StatusOr<IndexSpec> Parse(const std::string& text);
};

/// What one request may ask for. Published by Describe.
struct RequestLimits {
  std::uint32_t max_batch = 4096;  ///< queries, or labels
  std::uint32_t max_k = 10000;
  std::uint32_t max_ef = 10000;              ///< of ef_l1, ef_l0 and nprobe
  std::uint32_t max_query_threads = 0;       ///< 0: as many as the server has threads
  std::uint64_t max_reply_bytes = 64 << 20;  ///< 12 bytes an id, or vectors
};

/// What connections may do.
struct ConnectionLimits {
  std::uint32_t connections = 10000;
  std::uint32_t connections_per_peer = 1000;  ///< of one address; of IPv6, of one /64
  std::uint32_t streams = 256;                ///< calls of a connection at once; more wait
  std::uint32_t cancels_per_second = 1000;    ///< calls of a connection that end unanswered
  std::uint64_t transport_bytes = 1 << 30;    ///< gRPC's own, for buffers and calls
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(10);
  std::chrono::nanoseconds request_timeout = std::chrono::seconds(30);  ///< for its rest
  std::chrono::nanoseconds reply_timeout = std::chrono::minutes(1);     ///< until it is taken
  std::uint64_t request_bytes = 4 << 20;  ///< of one request at most; the server fills it in
  std::chrono::nanoseconds idle_timeout = std::chrono::minutes(5);
  std::chrono::nanoseconds age = std::chrono::hours(1);
  std::chrono::nanoseconds keepalive = std::chrono::minutes(1);
  std::chrono::nanoseconds min_ping = std::chrono::seconds(10);

  /// Errors: INVALID_ARGUMENT naming the option.
  absl::Status Validate() const;
};

/// PEM files that are read again while the server runs. None: plaintext.
struct TlsFiles {
  std::string certificate, key;
  std::string client_ca;  ///< clients need a certificate of it; empty: they need none

  bool any() const { return !certificate.empty() || !key.empty() || !client_ca.empty(); }
  /// Errors: INVALID_ARGUMENT naming the option.
  absl::Status Validate() const;
};

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

/// The path of "unix:PATH"; empty when `listen` is something else.
std::string UnixPath(const std::string& listen);

/// Whether `listen` ("127.0.0.1:50051", "[::1]:0", "localhost:0", "unix:/run/hmann") can
/// be reached from this machine only. Errors: INVALID_ARGUMENT when it is none of these.
absl::StatusOr<bool> IsLoopback(const std::string& listen);

}  // namespace hmann
