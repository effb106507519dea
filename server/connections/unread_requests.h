#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace hmann::server {

/// The calls of a server whose next request has not come whole. gRPC gives a request to
/// its call only then, and checks its size only then. It also counts the calls that were
/// refused, which for gRPC have succeeded, though perhaps without a message.
///
/// Thread safety: all methods may be called from any thread.
class UnreadRequests {
 public:
  /// A call that waits for a request.
  class Call {
   public:
    /// `is_stream`: it may wait for a long time without a fault of its client.
    explicit Call(bool is_stream) : is_stream_(is_stream) {}
    virtual ~Call() = default;
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
    std::string peer_;  ///< empty: not asked for yet
    const bool is_stream_;
    std::list<Call*>::iterator place_;
    bool waits_ = false;
  };

  /// `call` waits until Remove or TooLong.
  void Add(Call* call) {
    const std::lock_guard lock(mutex_);
    call->place_ = calls_.insert(calls_.end(), call);
    call->waits_ = true;
  }

  /// Returns false if TooLong was called.
  bool Remove(Call* call) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(call->waits_, false)) return false;
    calls_.erase(call->place_);
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

  /// Held during TooLong, so that a call lives until it returns.
  std::recursive_mutex mutex_;
  std::list<Call*> calls_;
  absl::flat_hash_map<std::string, std::uint64_t> refused_;  ///< by peer
};

}  // namespace hmann::server
