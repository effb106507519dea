#pragma once

#include "CLI/App.hpp"
#include "index/hmann.h"

namespace hmann {

/// Declares --fast --slow --cache --cache-size --migration --helpers on `app`: where an
/// index is opened. `open` must outlive it.
void AddOpenFlags(CLI::App& app, OpenOptions* open);

}  // namespace hmann
