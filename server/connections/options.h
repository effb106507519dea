#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann::server {

/// Limits on connections.
struct ConnectionLimits {
  std::uint32_t connections = 10000;
  std::uint32_t connections_per_peer = 1000;  ///< per address; for IPv6, per /64
  std::uint32_t streams = 256;                ///< open calls per connection; more wait
  std::uint32_t cancels_per_second = 1000;    ///< unanswered calls per connection
  std::uint64_t transport_bytes = 1 << 30;    ///< gRPC's own buffers and calls
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(10);
  std::chrono::nanoseconds request_timeout = std::chrono::seconds(30);  ///< for the rest
  std::chrono::nanoseconds reply_timeout = std::chrono::minutes(1);     ///< until it is read
  std::uint64_t request_bytes = 4 << 20;  ///< per request; set by the server
  /// Per request with one vector, and of what is none; the server adds a vector. A guess:
  /// two names of a MiB in a row are allowed.
  std::uint64_t single_bytes = 2560 << 10;
  std::chrono::nanoseconds idle_timeout = std::chrono::minutes(5);
  std::chrono::nanoseconds age = std::chrono::hours(1);
  std::chrono::nanoseconds keepalive = std::chrono::minutes(1);
  std::chrono::nanoseconds min_ping = std::chrono::seconds(10);

  /// Errors: INVALID_ARGUMENT naming the option.
  absl::Status Validate() const;
};

/// PEM files, re-read while the server runs. None: plaintext.
struct TlsFiles {
  std::string certificate, key;
  std::string client_ca;  ///< CA of client certificates; empty: none needed

  bool any() const { return !certificate.empty() || !key.empty() || !client_ca.empty(); }
  /// Errors: INVALID_ARGUMENT naming the option.
  absl::Status Validate() const;
};

/// The path in "unix:PATH"; empty when `listen` has another form.
std::string UnixPath(const std::string& listen);

/// True if `listen`, the value of `option`, is reachable from this machine only:
/// "127.0.0.1:50051", "[::1]:0", "localhost:0", "unix:/run/hmann". Errors:
/// INVALID_ARGUMENT naming the option, when it has none of these forms.
absl::StatusOr<bool> IsLoopback(const std::string& option, const std::string& listen);

}  // namespace hmann::server
