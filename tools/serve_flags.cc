#include "tools/serve_flags.h"

namespace hmann {

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
