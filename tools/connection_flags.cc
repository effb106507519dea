#include "tools/connection_flags.h"

#include "index/base/units.h"
#include "tools/flags.h"
#include "tools/help.h"

namespace hmann::tools {

void AddConnectionFlags(CLI::App& app, server::ConnectionLimits* limits) {
  const OptionGroup group(app, "Connections");
  app.add_option("--max-connections", limits->connections,
                 "maximum number of open connections; more are closed")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-connections-per-peer", limits->connections_per_peer,
                 "maximum number of open connections per address (IPv6: per /64)")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  AddParsed(app, "--connection-age", ParseDuration, &limits->age,
            "age at which a connection accepts no more calls and its client opens another "
            "(default: 3600s)");
}

}  // namespace hmann::tools
