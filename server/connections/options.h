#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann::server {

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

/// The path of "unix:PATH"; empty when `listen` is something else.
std::string UnixPath(const std::string& listen);

/// Whether `listen` ("127.0.0.1:50051", "[::1]:0", "localhost:0", "unix:/run/hmann") can
/// be reached from this machine only. Errors: INVALID_ARGUMENT when it is none of these.
absl::StatusOr<bool> IsLoopback(const std::string& listen);

}  // namespace hmann::server
