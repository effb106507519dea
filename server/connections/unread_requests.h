#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/core/byte_account.h"
#include "server/core/metrics.h"

namespace hmann::server {

/// What a request takes at most, in its sizes on the wire. A write: the message, its
/// batch, the rows encoded and for the journal, and what SQLite binds. Others: the bytes
/// and the message.
constexpr std::uint64_t CopiesOf(Method method) { return method >= Method::kPut ? 5 : 2; }

/// The calls of a server whose next request has not come whole. gRPC gives a request to
/// its call only then, and checks its size only then. It also counts the calls that were
/// refused, which for gRPC have succeeded, though perhaps without a message.
///
/// A call is read only once Reserve has taken bytes for its request from the account:
/// until then, HTTP/2 holds its client back. A request that has come takes what it and
/// its copies need, until the call ends or gives it back.
///
/// Thread safety: all methods may be called from any thread.
class UnreadRequests {
 public:
  using Clock = std::chrono::steady_clock;

  /// `most_request`: bytes of a request. `account` outlives this.
  UnreadRequests(ByteAccount* account, std::uint64_t most_request)
      : account_(*account), most_request_(most_request) {}

  std::uint64_t most_request() const { return most_request_; }
  const ByteAccount& account() const { return account_; }

  /// A call that waits for a request.
  class Call {
   public:
    /// `is_stream`: it may wait for a long time without a fault of its client. `copies`:
    /// what a request takes in memory at most, in its sizes on the wire.
    Call(UnreadRequests* unread, bool is_stream, std::uint64_t copies)
        : list_(*unread), is_stream_(is_stream), copies_(copies) {}
    virtual ~Call() {
      list_.HoldBack(this, false);
      list_.account_.Give(held_ + reserved_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    /// The client's address and port, as gRPC writes it.
    virtual std::string Peer() const = 0;
    /// Ends the call: the client has sent `bytes` that make no whole request, which is
    /// too many. The call is not in the list any more.
    virtual void TooLong(std::uint64_t bytes) = 0;

   private:
    friend class UnreadRequests;
    bool IsOf(const std::string& peer) {
      if (peer_.empty()) peer_ = Peer();
      return peer_ == peer;
    }
    UnreadRequests& list_;
    std::string peer_;  ///< empty: not asked for yet
    const bool is_stream_;
    const std::uint64_t copies_;
    std::uint64_t next_ = kToRead;         ///< the size that its next request is taken to have
    std::uint64_t reserved_ = 0;           ///< bytes taken to read
    std::atomic<std::uint64_t> held_ = 0;  ///< those for what was read
    Clock::time_point since_, came_;       ///< when it began to wait; when something came
    std::list<Call*>::iterator place_;
    bool waits_ = false, held_back_ = false;
  };

  /// Takes bytes for the next request of `call`. Returns false if there is no room: its
  /// client is held back then.
  bool Reserve(Call* call) {
    const std::uint64_t bytes = call->next_ * call->copies_;
    const bool has_room = account_.TryTake(bytes);
    if (has_room)
      call->reserved_ = bytes;
    else
      starved_.store(true, std::memory_order_relaxed);
    HoldBack(call, !has_room);
    return has_room;
  }
  /// True if a call of `peer` is not read: that nothing comes is no fault of its client.
  bool HoldsBack(const std::string& peer) {
    const std::lock_guard lock(mutex_);
    return held_back_.contains(peer);
  }
  /// True if Reserve returned false since the last call.
  bool TakeStarved() { return starved_.exchange(false, std::memory_order_relaxed); }
  /// Frees the bytes reserved for requests of which nothing came for kSoon, or which are
  /// not whole after kLate. (They are counted when they are whole; gRPC's quota bounds
  /// what has come in part.)
  void Lend(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    for (Call* const call : calls_) {
      if (now - call->came_ >= kSoon || now - call->since_ >= kLate)
        account_.Give(std::exchange(call->reserved_, 0));
    }
  }
  /// Much has come from `peer`: perhaps a request, after a pause.
  void Came(const std::string& peer) {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    for (Call* const call : calls_) {
      if (!call->IsOf(peer)) continue;
      if (call->reserved_ == 0 && now - call->came_ >= kSoon) {
        call->since_ = now;
        call->reserved_ = call->next_ * call->copies_;
        account_.Take(call->reserved_);
      }
      call->came_ = now;
    }
  }
  /// Gives back what `answered` of `open` requests of `call` took, on the average. One
  /// thread at a time calls it for a call.
  void GiveBack(Call* call, std::uint64_t answered, std::uint64_t open) {
    const std::uint64_t bytes = call->held_ * answered / std::max<std::uint64_t>(open, 1);
    call->held_ -= bytes;
    account_.Give(bytes);
  }

  /// `call`, for which bytes are reserved, waits until Remove or TooLong.
  void Add(Call* call) {
    const std::lock_guard lock(mutex_);
    call->since_ = call->came_ = Clock::now();
    call->place_ = calls_.insert(calls_.end(), call);
    call->waits_ = true;
  }

  /// Returns false if TooLong was called. `bytes`: of the request that has come.
  bool Remove(Call* call, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(call->waits_, false)) return false;
    calls_.erase(call->place_);
    call->next_ = std::max(bytes, kLeastToRead);
    account_.Take(bytes * call->copies_);
    call->held_ += bytes * call->copies_;
    account_.Give(std::exchange(call->reserved_, 0));
    return true;
  }

  /// True if a call of `peer` waits for a request.
  bool Has(const std::string& peer) {
    const std::lock_guard lock(mutex_);
    return std::any_of(calls_.begin(), calls_.end(), [&](Call* call) { return call->IsOf(peer); });
  }

  /// Counts a call of `peer` that ends without its request or without the right to it.
  void Refused(const std::string& peer) {
    const std::lock_guard lock(mutex_);
    if (refused_.size() >= 64 << 10) refused_.clear();  // most of them are gone
    ++refused_[peer];
  }
  /// The number of these since the last call.
  std::uint64_t TakeRefused(const std::string& peer) {
    const std::lock_guard lock(mutex_);
    const auto taken = refused_.extract(peer);
    return taken.empty() ? 0 : taken.mapped();
  }

  /// Ends the calls of `peer` that wait for a request: its streams only if it has no
  /// others. Returns false if it has none.
  bool End(const std::string& peer, std::uint64_t bytes) {
    return End(peer, bytes, false) || End(peer, bytes, true);
  }

 private:
  void HoldBack(Call* call, bool held_back) {
    if (call->held_back_ == held_back) return;
    call->held_back_ = held_back;
    const std::lock_guard lock(mutex_);
    if (held_back) {
      if (call->peer_.empty()) call->peer_ = call->Peer();
      ++held_back_[call->peer_];
    } else if (const auto found = held_back_.find(call->peer_); --found->second == 0) {
      held_back_.erase(found);
    }
  }
  bool End(const std::string& peer, std::uint64_t bytes, bool streams) {
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (auto next = calls_.begin(); next != calls_.end();) {
      Call* const call = *next++;
      if (call->is_stream_ != streams || !call->IsOf(peer)) continue;
      calls_.erase(call->place_);
      call->waits_ = false;
      Refused(peer);
      call->TooLong(bytes);  // may remove no other: gRPC answers on threads of its own
      any = true;
    }
    return any;
  }

  /// The size that a request is taken to have before it is known (the next of a stream is
  /// like the one before it), and for how long: guesses.
  static constexpr std::uint64_t kToRead = 4 << 20, kLeastToRead = 256 << 10;
  static constexpr std::chrono::seconds kSoon{2}, kLate{10};

  ByteAccount& account_;
  const std::uint64_t most_request_;
  std::atomic<bool> starved_{false};
  /// Held during TooLong, so that a call lives until it returns.
  std::recursive_mutex mutex_;
  std::list<Call*> calls_;
  absl::flat_hash_map<std::string, std::uint64_t> refused_;    ///< by peer
  absl::flat_hash_map<std::string, std::uint64_t> held_back_;  ///< calls of a peer
};

}  // namespace hmann::server
