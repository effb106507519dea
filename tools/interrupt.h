#pragma once

#include <atomic>

namespace hmann::tools {

/// From now on the first SIGINT or SIGTERM sets the flag that is returned (and says so on
/// stderr) instead of ending the process; the second ends it. Call once, from the main
/// thread. The flag lives as long as the process.
const std::atomic<bool>* CancelOnInterrupt();

}  // namespace hmann::tools
