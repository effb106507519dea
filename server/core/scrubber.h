#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "server/core/registry.h"

namespace hmann::server {

/// Verifies, in the background, the checksums of data that indexes read in place. Open
/// did not check it, and a device may lose a bit later. It scrubs one index after
/// another. Each is scrubbed once it serves, again when its name stands for another file,
/// and an hour after the end of a pass.
class Scrubber {
 public:
  /// Called for an index that was withdrawn because its bytes are damaged.
  using Withdrawn = std::function<void(const ServedIndex&)>;

  /// `bytes_per_second`: total over all indexes; 0: never scrub. `registry` must outlive
  /// this.
  Scrubber(const Registry& registry, std::uint64_t bytes_per_second, Withdrawn withdrawn);
  ~Scrubber() { Stop(); }
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;

  /// Ends the running pass. May be called repeatedly, from one thread.
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
