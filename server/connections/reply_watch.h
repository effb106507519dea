#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

namespace hmann::server {

/// Replies that their clients have not taken yet. gRPC holds them, without a bound, for
/// as long as the client pleases: of HTTP/2 it may open its window by nothing. A call
/// whose reply waits for too long is cancelled, and where all of them together are too
/// large, the one that waits longest.
///
/// Thread safety: all from any thread.
class ReplyWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// What one call sends; watched from Sent until Taken or its end.
  class Reply {
   public:
    /// `watch` outlives this. `cancel` ends the call: called once at most, by any thread,
    /// while this exists; it must not come back to `watch` at once.
    Reply(ReplyWatch* watch, std::function<void()> cancel)
        : watch_(*watch), cancel_(std::move(cancel)) {}
    ~Reply() { watch_.Forget(this); }
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;

    /// So much more is gRPC's, or waits to be. The client's time begins unless it runs.
    void Sent(std::uint64_t bytes) { watch_.Add(this, bytes); }
    /// The client takes what it is sent: its time begins anew for what is left.
    void Taken(std::uint64_t bytes) { watch_.Remove(this, bytes); }

   private:
    friend class ReplyWatch;
    ReplyWatch& watch_;
    const std::function<void()> cancel_;
    // Of the watch's mutex:
    std::uint64_t bytes_ = 0;
    bool waits_ = false;
    Clock::time_point since_;
    std::list<Reply*>::iterator place_;
  };

  /// `bytes`: of all together.
  ReplyWatch(std::uint64_t bytes, std::chrono::nanoseconds time) : most_(bytes), time_(time) {}

  /// Cancels the calls whose time is over at `now`.
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
  std::list<Reply*> waiting_;  ///< who waits longest is first
  std::uint64_t bytes_ = 0;
};

}  // namespace hmann::server
