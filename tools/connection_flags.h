#pragma once

#include "CLI/App.hpp"
#include "server/connections/options.h"

namespace hmann::tools {

/// Declares the connection limits of `hmann serve`.
void AddConnectionFlags(CLI::App& app, server::ConnectionLimits* limits);

}  // namespace hmann::tools
