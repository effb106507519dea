#include "tools/serve_flags.h"

#include <string>

#include "index/base/units.h"
#include "tools/flags.h"

namespace hmann {
namespace {

void AddTime(CLI::App& app, const std::string& name, std::chrono::nanoseconds* time,
             const std::string& description) {
  AddParsed<std::chrono::nanoseconds>(
      app, name, ParseDuration, [time](std::chrono::nanoseconds given) { *time = given; },
      description + " (default: " + std::to_string(time->count() / 1'000'000'000) + "s)");
}

}  // namespace

void AddConnectionFlags(CLI::App& app, ConnectionLimits* limits) {
  app.add_option("--max-connections", limits->connections, "connections at once; more are closed")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-connections-per-peer", limits->connections_per_peer,
                 "of one address (of IPv6: of one /64)")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-streams", limits->streams,
                 "calls of one connection at once; more wait in the client")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-cancels", limits->cancels_per_second,
                 "calls of one connection that may end unanswered in a second; with more it is "
                 "shut down")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  AddParsed<std::uint64_t>(
      app, "--max-transport", ParseSize,
      [limits](std::uint64_t bytes) { limits->transport_bytes = bytes; },
      "bytes that connections may take for buffers and calls; beyond, they are shed "
      "(default: 1GiB)");
  AddTime(app, "--handshake-timeout", &limits->handshake_timeout,
          "until a new connection has said what it speaks");
  AddTime(app, "--request-timeout", &limits->request_timeout,
          "for the rest of a request that was begun; then its connection is shut down");
  AddTime(app, "--reply-timeout", &limits->reply_timeout,
          "for a client to take a reply; then the call is cancelled");
  AddTime(app, "--idle-timeout", &limits->idle_timeout, "without a call, then a connection ends");
  AddTime(app, "--connection-age", &limits->age,
          "then a connection takes no more calls, and its client makes another");
  AddTime(app, "--keepalive", &limits->keepalive,
          "of silence, then the other end is asked whether it is still there");
  AddTime(app, "--min-ping", &limits->min_ping,
          "least time between pings of a client; one who asks more often is sent away");
}

void AddSecurityFlags(CLI::App& app, ServerOptions* server) {
  app.add_option("--tls-cert", server->tls.certificate,
                 "certificate of this server, with those it follows from (PEM); read again when it "
                 "changes");
  app.add_option("--tls-key", server->tls.key, "its key (PEM)");
  app.add_option("--tls-client-ca", server->tls.client_ca,
                 "clients need a certificate of one of these authorities (PEM)");
  app.add_option("--tokens", server->tokens,
                 "file of those that may call: a line `SHA-256 read` or `SHA-256 admin` for each "
                 "token; read again when it changes");
  app.add_flag("--insecure", server->insecure, "allow an address beyond loopback without TLS");
}

}  // namespace hmann
