#pragma once

#include "CLI/App.hpp"
#include "hmann/hmann.h"

namespace hmann::tools {

/// Declares --fast and --slow on `app`. `open` must outlive it.
void AddTierFlags(CLI::App& app, OpenOptions* open);
/// And what else there is to say of how an index is opened: --cache --cache-size
/// --migration --helpers --sq.
void AddOpenFlags(CLI::App& app, OpenOptions* open);

}  // namespace hmann::tools
