#include "server/options.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::size_t kMaxName = 64;

absl::Status ValidateName(const std::string& name) {
  const bool legal = !name.empty() && name.size() <= kMaxName &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
                     });
  if (legal) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--index: expected a name of 1 to ", kMaxName,
                                                 " letters, digits, '.', '_' or '-', found '", name,
                                                 "'"));
}

}  // namespace

absl::StatusOr<IndexSpec> IndexSpec::Parse(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--index: expected NAME=PATH, found '", text, "'"));
  }
  IndexSpec spec{text.substr(0, equals), text.substr(equals + 1)};
  HMANN_RETURN_IF_ERROR(ValidateName(spec.name));
  return spec;
}

std::string UnixPath(const std::string& listen) {
  absl::string_view path = listen;
  return absl::ConsumePrefix(&path, "unix:") ? std::string(path) : "";
}

absl::StatusOr<bool> IsLoopback(const std::string& listen) {
  if (!UnixPath(listen).empty()) return true;
  const std::size_t colon = listen.rfind(':');
  std::uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen: expected HOST:PORT or unix:PATH, found '", listen, "'"));
  }
  const std::string host = listen.substr(0, colon);
  if (host == "localhost" || host == "[::1]") return true;
  // Of an address in dotted form, not of a name that merely begins so.
  return absl::StartsWith(host, "127.") &&
         std::all_of(host.begin(), host.end(),
                     [](unsigned char c) { return absl::ascii_isdigit(c) || c == '.'; });
}

absl::Status ConnectionLimits::Validate() const {
  for (const auto& [name, count] : {std::pair("--max-connections", connections),
                                    {"--max-connections-per-peer", connections_per_peer},
                                    {"max-streams", streams},
                                    {"max-cancels", cancels_per_second}}) {
    if (count == 0)
      return absl::InvalidArgumentError(absl::StrCat(name, ": expected at least 1, found 0"));
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
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected 1ms to ", kMost.count() / 1000, "s, found ",
                       std::chrono::duration_cast<std::chrono::milliseconds>(time).count(), "ms"));
    }
  }
  constexpr std::uint64_t kLeastTransport = 16 << 20;
  if (transport_bytes < kLeastTransport) {
    return absl::InvalidArgumentError(
        absl::StrCat("max-transport: expected at least 16MiB, found ", transport_bytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status TlsFiles::Validate() const {
  if (!any() || (!certificate.empty() && !key.empty())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      certificate.empty() ? "--tls-cert: expected a file with a certificate"
                          : "--tls-key: expected a file with the key of the certificate",
      ", found none, though TLS is asked for"));
}

absl::Status ServerOptions::Validate() const {
  if (indexes.empty())
    return absl::InvalidArgumentError("--index: expected at least one NAME=PATH");
  std::set<std::string> names;
  for (const IndexSpec& spec : indexes) {
    HMANN_RETURN_IF_ERROR(ValidateName(spec.name));
    if (!names.insert(spec.name).second)
      return absl::InvalidArgumentError(
          absl::StrCat("--index: the name '", spec.name, "' is given twice"));
  }
  HMANN_ASSIGN_OR_RETURN(const bool loopback, IsLoopback(listen));
  HMANN_RETURN_IF_ERROR(tls.Validate());
  if (!loopback && !tls.any() && !insecure) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen,
                     " is reached from other machines, unencrypted: give --tls-cert and --tls-key, "
                     "or --insecure if that is meant"));
  }
  if (!http.empty() && !insecure) {
    HMANN_ASSIGN_OR_RETURN(const bool http_loopback, IsLoopback(http));
    if (!http_loopback) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--http ", http, " is reached from other machines, unencrypted: give --insecure if that ",
          "is meant"));
    }
  }
  HMANN_RETURN_IF_ERROR(connections.Validate());
  if (threads < 0 || threads > 4096)
    return absl::InvalidArgumentError(
        absl::StrCat("--threads: expected 0 to 4096, found ", threads));
  if (queue == 0) return absl::InvalidArgumentError("--queue: expected at least 1, found 0");
  if (most_work <= std::chrono::nanoseconds::zero())
    return absl::InvalidArgumentError("--max-work: expected more than 0");
  if (default_deadline <= std::chrono::nanoseconds::zero())
    return absl::InvalidArgumentError("default deadline: expected more than 0");
  if (limits.max_batch == 0 || limits.max_k == 0 || limits.max_ef == 0 || limits.max_ef > kMaxEf) {
    return absl::InvalidArgumentError(
        absl::StrCat("limits: expected at least 1, and max_ef at most ", kMaxEf));
  }
  return absl::OkStatus();
}

}  // namespace hmann
