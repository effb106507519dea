#pragma once

#include <atomic>
#include <cstdint>

namespace hmann::server {

/// The one account of the bytes of requests and their replies: those that are about to be
/// read, read, parsed, copied, queued, and kept for an answer.
///
/// Thread safety: all methods may be called from any thread.
class ByteAccount {
 public:
  explicit ByteAccount(std::uint64_t most) : most_(most) {}

  std::uint64_t most() const { return most_; }
  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  bool HasRoom(std::uint64_t bytes) const { return used() + bytes <= most_; }
  /// Takes bytes if there is room, or if nothing is taken.
  bool TryTake(std::uint64_t bytes) {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (used > 0 && used + bytes > most_) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  /// Takes what is there already, whether or not there is room.
  void Take(std::uint64_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void Give(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const std::uint64_t most_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace hmann::server
