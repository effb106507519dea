#include "tools/serve_flags.h"

#include <charconv>
#include <memory>
#include <optional>
#include <system_error>

#include "index/base/units.h"
#include "tools/connection_flags.h"
#include "tools/flags.h"
#include "tools/help.h"
#include "tools/open_flags.h"

namespace hmann::tools {
namespace {

std::string CheckIndex(const std::string& text) {
  return std::string(server::IndexSpec::Parse(text).status().message());
}

/// The rights in `text`, octal; nothing if it has another form.
std::optional<int> Rights(const std::string& text) {
  constexpr int kMost = 0777, kOctal = 8;
  int rights = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, rights, kOctal);
  if (error != std::errc() || at != end || rights < 0 || rights > kMost) return std::nullopt;
  return rights;
}

std::string CheckRights(const std::string& text) {
  return Rights(text).has_value()
             ? ""
             : "expected rights in octal, for example 660, found '" + text + "'";
}

/// Declares the options that control access.
void AddSecurityFlags(CLI::App& app, server::ServerOptions* server) {
  const OptionGroup group(app, "Access");
  app.add_option("--tls-cert", server->tls.certificate,
                 "certificate chain of this server (PEM); read again when it changes")
      ->type_name("FILE");
  app.add_option("--tls-key", server->tls.key, "key of --tls-cert (PEM)")->type_name("FILE");
  app.add_option("--tls-client-ca", server->tls.client_ca,
                 "require client certificates from one of these authorities (PEM)")
      ->type_name("FILE");
  app.add_option("--tokens", server->tokens,
                 "file of accepted tokens, one line `SHA-256 read` or `SHA-256 admin` per token, "
                 "perhaps with `indexes=a,b-*` and `until=2027-01-31`; read again when it changes")
      ->type_name("FILE");
  app.add_flag("--insecure", server->insecure, "allow non-loopback addresses without TLS");
}

/// Declares the options of an agent of Vald.
void AddValdFlags(CLI::App& app, server::ServerOptions::Vald* vald) {
  const OptionGroup group(app, "Vald");
  app.add_option("--vald", vald->index,
                 "answer as an agent of Vald for this index, too (doc/scale-out.md)")
      ->type_name("NAME");
  app.add_option("--vald-listen", vald->listen,
                 "a second address to listen on: gateways ask all agents at one port")
      ->type_name("HOST:PORT");
  app.add_option("--vald-agents", vald->agents,
                 "IPv4 addresses of all agents: answer as the discoverer of a gateway, too")
      ->delimiter(',')
      ->type_name("IP,IP,...");
}

}  // namespace

void AddServeFlags(CLI::App& app, ServeFlags* flags) {
  app.add_option("--index", flags->indexes,
                 "NAME=FILE, once per index; or FILE, whose name is the index's")
      ->check(CheckIndex)
      ->configurable(false);
  app.add_option("--config", flags->config,
                 "TOML file with these options by name, and with the indexes: [index.NAME] with "
                 "file or versions; SIGHUP reads it again. This command line goes before it")
      ->type_name("FILE")
      ->configurable(false)
      ->excludes("--index");
  app.add_option("--listen", flags->server.listen,
                 "address to listen on: HOST:PORT (port 0 picks one) or unix:PATH")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--socket-mode",
         [flags](const std::string& text) { flags->server.socket_mode = *Rights(text); },
         "rights of the socket of unix:PATH, octal, whatever the umask; 660: owner and group "
         "(default: 666, the rights of its folder decide)")
      ->check(CheckRights);
  app.add_option("--http", flags->server.http,
                 "HOST:PORT for /metrics (Prometheus), /livez and /readyz (default: none)");
  AddOpenFlags(app, &flags->server.open);
  app.add_flag("--warm", flags->server.warm,
               "read all mapped data once, even if it exceeds the free memory");
  app.add_option("--threads", flags->server.threads,
                 "concurrent searches (0: one per core, or eight per core with L0 on nvme, where "
                 "they wait)")
      ->check(CLI::Range(0, 4096));
  app.add_option("--queue", flags->server.queue,
                 "maximum number of waiting requests, separately for short and long ones; more are "
                 "refused, as are requests that would miss their deadline")
      ->capture_default_str();
  app.add_option("--max-batch", flags->server.limits.max_batch, "maximum queries per request")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-k", flags->server.limits.max_k, "maximum neighbors per query")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  AddParsed(app, "--max-work", ParseDuration, &flags->server.most_work,
            "maximum thread time of one request, estimated from earlier ones (default: 60s)");
  AddConnectionFlags(app, &flags->server.connections);
  AddParsed(app, "--drain", ParseDuration, &flags->drain,
            "time to keep answering after SIGTERM, with the port closed and health NOT_SERVING "
            "(default: 5s)");
  AddParsed(app, "--scrub", ParseSize, &flags->server.scrub_bytes_per_second,
            "rate of the background checksum pass over data that is read in place (mapped, nvme), "
            "in bytes per second; 0: never (default: 32MiB)");
  AddSecurityFlags(app, &flags->server);
  AddValdFlags(app, &flags->server.vald);
  app.add_option("--log-level", flags->log_level,
                 "least severity of a log line; debug shows each refused handshake")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_flag("--json", flags->json,
               "print the address as one JSON object on stdout, before indexes are loaded");
}

}  // namespace hmann::tools
