#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/core/registry.h"

namespace hmann::server {

/// Loads and closes generations. Each load has a thread of its own, so that a file on
/// storage that hangs holds up no other. These threads get the processor and the disk
/// after those that search.
///
/// Thread safety: all methods may be called from any thread.
class Loader {
 public:
  /// Called once, on the thread of the load, with what is served now.
  using Done = std::function<void(const absl::StatusOr<Snapshot>&)>;

  /// `open` and `warm`: for indexes whose spec leaves them open.
  Loader(OpenOptions open, bool warm) : open_(std::move(open)), warm_(warm) {}
  ~Loader() { Stop(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  OpenOptions open() const;
  /// Replaces what the constructor got, for loads that begin from now on.
  void SetDefaults(const OpenOptions& open, bool warm);
  /// ServedIndex::Load. Additional errors: UNAVAILABLE after Stop; RESOURCE_EXHAUSTED if
  /// no thread can be started.
  void Load(const std::shared_ptr<ServedIndex>& index, const std::string& path, const Probe& probe,
            const Done& done);
  /// Closes a generation (null: none) once the last request that uses it has ended.
  void Close(std::shared_ptr<Generation> old);
  /// Begins no more. Returns when those that run have ended, which may take as long as
  /// storage hangs.
  void Stop();
  bool stopping() const { return stop_; }
  /// Runs `work` on a thread of its own; `low`: after those that search. Errors:
  /// UNAVAILABLE after Stop; RESOURCE_EXHAUSTED if no thread can be started.
  absl::Status Run(bool low, std::function<void()> work);

 private:
  void WaitUntilUnused(const std::shared_ptr<Generation>& old) const;

  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable ended_;
  OpenOptions open_;
  bool warm_;
  int running_ = 0;
};

}  // namespace hmann::server
