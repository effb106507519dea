#pragma once

#include <atomic>

namespace hmann::tools {

/// Catches SIGINT and SIGTERM. The first signal sets the returned flag and says so on
/// stderr, instead of ending the process. The second ends it. Call once, from the main
/// thread. The flag lives as long as the process.
const std::atomic<bool>* CancelOnInterrupt();

}  // namespace hmann::tools
