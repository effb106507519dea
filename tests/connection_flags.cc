// Replaces tools/connection_flags.cc in `hmann-faulty` and exposes every connection
// limit. Users get only three of them. Flood tests would otherwise take minutes.
#include "tools/connection_flags.h"

#include <string>

#include "index/base/units.h"
#include "tools/flags.h"

namespace hmann::tools {

void AddConnectionFlags(CLI::App& app, server::ConnectionLimits* limits) {
  for (const auto& [name, count] : {std::pair("--max-connections", &limits->connections),
                                    {"--max-connections-per-peer", &limits->connections_per_peer},
                                    {"--max-streams", &limits->streams},
                                    {"--max-cancels", &limits->cancels_per_second}}) {
    app.add_option(name, *count);
  }
  for (const auto& [name, time] : {std::pair("--handshake-timeout", &limits->handshake_timeout),
                                   {"--request-timeout", &limits->request_timeout},
                                   {"--reply-timeout", &limits->reply_timeout},
                                   {"--idle-timeout", &limits->idle_timeout},
                                   {"--connection-age", &limits->age},
                                   {"--keepalive", &limits->keepalive},
                                   {"--min-ping", &limits->min_ping}}) {
    AddParsed<std::chrono::nanoseconds>(
        app, name, ParseDuration, [time = time](std::chrono::nanoseconds given) { *time = given; },
        "");
  }
}

}  // namespace hmann::tools
