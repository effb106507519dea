#pragma once

#include "CLI/App.hpp"
#include "hmann/hmann.h"

namespace hmann::tools {

/// Declares --fast and --slow on `app`. `open` must outlive it.
void AddTierFlags(CLI::App& app, OpenOptions* open);
/// Also declares the other options for opening an index: --cache --cache-size
/// --read-buffers --sq.
void AddOpenFlags(CLI::App& app, OpenOptions* open);

}  // namespace hmann::tools
