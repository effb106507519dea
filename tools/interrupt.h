#pragma once

#include <atomic>

namespace hmann::tools {

/// Catches SIGINT and SIGTERM. The first signal sets the returned flag and says so on
/// stderr, instead of ending the process. The second ends it. Call once, from the main
/// thread. The flag lives as long as the process.
const std::atomic<bool>* CancelOnInterrupt();

/// Ends the process as the signal that set the flag would have: a shell sees 130 for
/// Ctrl-C. Returns 1, for main to return, if there was none.
int EndAsInterrupted();

}  // namespace hmann::tools
