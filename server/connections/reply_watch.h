#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

namespace hmann::server {

/// Replies that their clients have not read yet. gRPC holds them without a bound, for as
/// long as the client pleases: HTTP/2 lets a client keep its window closed. A call whose
/// reply waits for too long is cancelled. When all replies together are too large, the
/// one that has waited longest is cancelled.
///
/// Thread safety: all methods may be called from any thread.
class ReplyWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// The replies of one call, watched from Sent until Taken or the end of the call.
  class Reply {
   public:
    /// `watch` must outlive this. `cancel` ends the call. It is called at most once, by
    /// any thread, while this exists. It must not call back into `watch` directly.
    Reply(ReplyWatch* watch, std::function<void()> cancel)
        : watch_(*watch), cancel_(std::move(cancel)) {}
    ~Reply() { watch_.Forget(this); }
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;

    /// `bytes` more are in gRPC's hands, or about to be. Starts the client's time unless
    /// it already runs.
    void Sent(std::uint64_t bytes) { watch_.Add(this, bytes); }
    /// The client read `bytes`. Its time starts again for what is left.
    void Taken(std::uint64_t bytes) { watch_.Remove(this, bytes); }

   private:
    friend class ReplyWatch;
    ReplyWatch& watch_;
    const std::function<void()> cancel_;
    // Guarded by the watch's mutex:
    std::uint64_t bytes_ = 0;
    bool waits_ = false;
    Clock::time_point since_;
    std::list<Reply*>::iterator place_;
  };

  /// `bytes`: limit on all replies together. `time`: limit for each.
  ReplyWatch(std::uint64_t bytes, std::chrono::nanoseconds time) : most_(bytes), time_(time) {}

  /// Cancels the calls whose time has run out at `now`.
  void CancelLate(Clock::time_point now);

 private:
  void Add(Reply* reply, std::uint64_t bytes);
  void Remove(Reply* reply, std::uint64_t bytes);
  void Forget(Reply* reply);
  void Leave(Reply* reply);
  void CancelFirst();

  const std::uint64_t most_;
  const std::chrono::nanoseconds time_;
  std::mutex mutex_;
  std::list<Reply*> waiting_;  ///< the longest wait first
  std::uint64_t bytes_ = 0;
};

}  // namespace hmann::server
