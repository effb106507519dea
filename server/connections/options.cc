#include "server/connections/options.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "index/base/errors.h"

namespace hmann::server {

std::string UnixPath(const std::string& listen) {
  absl::string_view path = listen;
  return absl::ConsumePrefix(&path, "unix:") ? std::string(path) : "";
}

absl::StatusOr<bool> IsLoopback(const std::string& option, const std::string& listen) {
  const bool may_be_path = option == "--listen";
  const std::string path = UnixPath(listen);
  if (may_be_path && absl::StartsWith(path, "@")) {
    return InvalidArgument(option, " ", listen,
                           ": a name without a file has no permissions, so "
                           "every user could connect: give a path, or ./",
                           path);
  }
  if (may_be_path && !path.empty()) return true;
  const std::size_t colon = listen.rfind(':');
  std::uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port > 65535) {
    return InvalidArgument(option, ": expected HOST:PORT", may_be_path ? " or unix:PATH" : "",
                           ", found '", listen, "'",
                           colon == 0     ? "; all addresses are 0.0.0.0 or [::]"
                           : port > 65535 ? "; a port is at most 65535"
                                          : "");
  }
  const std::string host = absl::AsciiStrToLower(listen.substr(0, colon));
  if (absl::StrContains(host, ':') && !(host.front() == '[' && host.back() == ']')) {
    return InvalidArgument(option, ": an IPv6 address is written in brackets, expected [", host,
                           "]:", port, ", found '", listen, "'");
  }
  if (host == "localhost" || host == "[::1]") return true;
  // Accepts a dotted address only, not a name that starts like one.
  return absl::StartsWith(host, "127.") &&
         std::all_of(host.begin(), host.end(),
                     [](unsigned char c) { return absl::ascii_isdigit(c) || c == '.'; });
}

absl::Status ConnectionLimits::Validate() const {
  for (const auto& [name, count] : {std::pair("--max-connections", connections),
                                    {"--max-connections-per-peer", connections_per_peer},
                                    {"max-streams", streams},
                                    {"max-cancels", cancels_per_second}}) {
    if (count == 0) return InvalidArgument(name, ": expected at least 1, found 0");
  }
  constexpr std::chrono::milliseconds kLeast(1), kMost(std::numeric_limits<int>::max());
  for (const auto& [name, time] : {std::pair("handshake-timeout", handshake_timeout),
                                   {"request-timeout", request_timeout},
                                   {"reply-timeout", reply_timeout},
                                   {"idle-timeout", idle_timeout},
                                   {"--connection-age", age},
                                   {"keepalive", keepalive},
                                   {"min-ping", min_ping}}) {
    if (time < kLeast || time > kMost) {
      return InvalidArgument(name, ": expected 1ms to ", kMost.count() / 1000, "s, found ",
                             std::chrono::duration_cast<std::chrono::milliseconds>(time).count(),
                             "ms");
    }
  }
  constexpr std::uint64_t kLeastTransport = 16 << 20;
  if (transport_bytes < kLeastTransport) {
    return InvalidArgument("max-transport: expected at least 16MiB, found ", transport_bytes,
                           " bytes");
  }
  return absl::OkStatus();
}

absl::Status TlsFiles::Validate() const {
  if (!any() || (!certificate.empty() && !key.empty())) return absl::OkStatus();
  return InvalidArgument(certificate.empty()
                             ? "--tls-cert: expected a file with a certificate"
                             : "--tls-key: expected a file with the key of the certificate",
                         ", found none, though TLS is asked for");
}

}  // namespace hmann::server
