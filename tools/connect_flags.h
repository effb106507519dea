#pragma once

#include "CLI/App.hpp"
#include "hmann/client.h"

namespace hmann::tools {

/// What a command that talks to a server shows it, and believes of it.
void AddConnectFlags(CLI::App& app, client::ConnectOptions* connect);

}  // namespace hmann::tools
