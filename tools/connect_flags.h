#pragma once

#include "CLI/App.hpp"
#include "hmann/client.h"

namespace hmann::tools {

/// Declares the TLS and token options of a command that connects to a server.
void AddConnectFlags(CLI::App& app, client::ConnectOptions* connect);

}  // namespace hmann::tools
