#include "server/core/loader.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "server/core/errors.h"

namespace hmann::server {

OpenOptions Loader::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

void Loader::SetDefaults(const OpenOptions& open, bool warm) {
  const std::lock_guard lock(mutex_);
  open_ = open;
  warm_ = warm;
}

absl::Status Loader::Run(bool low, std::function<void()> work) {
  HMANN_RETURN_IF_ERROR(CheckThreads(1));
  const std::lock_guard lock(mutex_);
  if (stop_) return ServerStopping();
  std::thread([this, low, work = std::move(work)]() mutable {
    if (low) StepBehind();
    work();
    work = nullptr;
    const std::lock_guard lock(mutex_);
    --running_;
    ended_.notify_all();
  }).detach();
  ++running_;
  return absl::OkStatus();
}

void Loader::Load(const std::shared_ptr<ServedIndex>& index, const std::string& path,
                  const Probe& probe, const Done& done) {
  IndexSpec spec = index->spec();
  {
    const std::lock_guard lock(mutex_);
    if (!spec.open.has_value()) spec.open = open_;
    if (!spec.warm.has_value()) spec.warm = warm_;
  }
  const bool serves = index->state() != IndexState::kLoading;
  const absl::Status begun = Run(false, [this, serves, index, path, spec, probe, done] {
    // Threads of a collection (a folder) would stay behind if this one was.
    std::error_code error;
    if (serves && !std::filesystem::is_directory(path, error)) StepBehind();
    absl::StatusOr<Replaced> loaded = index->Load(path, *spec.open, *spec.warm, probe);
    if (!loaded.ok()) return done(loaded.status());
    done(std::exchange(loaded->now, {}));
    WaitUntilUnused(loaded->before);
  });
  if (begun.ok()) return;
  if (index->state() == IndexState::kLoading) index->Fail(begun);
  done(begun);
}

void Loader::Close(std::shared_ptr<Generation> old) {
  if (old == nullptr) return;
  // If no thread can start, the last request closes it.
  Run(true, [this, old = std::move(old)] { WaitUntilUnused(old); }).IgnoreError();
}

/// The caller then closes it. Releasing the memory of a large index takes time that no
/// request should wait for.
void Loader::WaitUntilUnused(const std::shared_ptr<Generation>& old) const {
  constexpr std::chrono::milliseconds kOften(5);
  while (old != nullptr && old.use_count() > 1 && !stop_) std::this_thread::sleep_for(kOften);
}

void Loader::Stop() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  ended_.wait(lock, [this] { return running_ == 0; });
}

}  // namespace hmann::server
