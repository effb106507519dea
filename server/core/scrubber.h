#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "server/core/registry.h"

namespace hmann::server {

/// Compares with its checksums, in the background, what indexes read in place: Open did
/// not look at it, and a device may lose a bit later. One index after the other, each
/// once it serves, anew when its name stands for another file, and again an hour after
/// the end of a pass.
class Scrubber {
 public:
  /// Of an index that was withdrawn because its bytes are damaged.
  using Withdrawn = std::function<void(const ServedIndex&)>;

  /// `bytes_per_second`: of all indexes together; 0: never. `registry` must outlive this.
  Scrubber(const Registry& registry, std::uint64_t bytes_per_second, Withdrawn withdrawn);
  ~Scrubber() { Stop(); }
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;

  /// Ends the pass that runs. May be called again; from one thread.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  Clock::time_point Pass(const Snapshot& index);
  bool Pace(const Snapshot& index, std::uint64_t bytes);
  bool WaitUntil(Clock::time_point time);

  const Registry& registry_;
  const double bytes_per_second_;
  const Withdrawn withdrawn_;
  Clock::time_point next_read_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace hmann::server
