#pragma once

#include "CLI/App.hpp"
#include "server/connections/options.h"

namespace hmann::tools {

/// `hmann serve`: what connections may do (connection_flags.cc).
void AddConnectionFlags(CLI::App& app, server::ConnectionLimits* limits);

}  // namespace hmann::tools
