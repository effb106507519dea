#include "tools/connect_flags.h"

namespace hmann::tools {

void AddConnectFlags(CLI::App& app, client::ConnectOptions* connect) {
  app.add_flag("--tls", connect->tls, "encrypt, and trust the certificates of this system");
  app.add_option("--ca", connect->ca_file,
                 "encrypt, and trust the certificates in this file (PEM)");
  auto* certificate =
      app.add_option("--cert", connect->certificate_file, "this client's certificate (PEM)");
  certificate->needs(
      app.add_option("--key", connect->key_file, "key of this client's certificate (PEM)")
          ->needs(certificate));
  app.add_option("--token", connect->token_file, "file that holds this client's token");
}

}  // namespace hmann::tools
