#include "tools/connection_flags.h"

#include "index/base/units.h"
#include "tools/flags.h"

namespace hmann::tools {

void AddConnectionFlags(CLI::App& app, server::ConnectionLimits* limits) {
  app.add_option("--max-connections", limits->connections, "connections at once; more are closed")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-connections-per-peer", limits->connections_per_peer,
                 "of one address (of IPv6: of one /64)")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  AddParsed(app, "--connection-age", ParseDuration, &limits->age,
            "then a connection takes no more calls, and its client makes another (default: 3600s)");
}

}  // namespace hmann::tools
