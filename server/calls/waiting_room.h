#pragma once

#include <chrono>
#include <list>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/core/search_pool.h"

namespace hmann::server {

class UnaryCall;

/// Calls for which the pool has no room and whose requests are not read yet. They wait
/// for room, which costs next to nothing. (A client that is refused at once may come back
/// at once, and each refusal takes time from searches.) After half of its time, or
/// kLongest, the pool is not asked any more. A call waits for room in the account of
/// bytes for half of its time, or kLongestForBytes, and is then refused.
///
/// Thread safety: all methods may be called from any thread.
class WaitingRoom {
 public:
  using Clock = std::chrono::steady_clock;
  using HasRoom = absl::FunctionRef<bool(Caller, Clock::time_point deadline)>;

  /// `deadline`: when `call` is to be answered.
  void Add(UnaryCall* call, Caller caller, Clock::time_point deadline);
  /// Returns false if `call` does not wait any more.
  bool Leave(UnaryCall* call);
  /// Lets in, by arrival, the calls that have room or waited for too long.
  void LookIn(Clock::time_point now, HasRoom has_room);
  /// Refuses all.
  void Close(const absl::Status& why);

 private:
  friend class UnaryCall;
  static constexpr std::chrono::seconds kLongest{1}, kLongestForBytes{20};  // guesses

  struct Waiting {
    UnaryCall* call;
    Caller caller;
    Clock::time_point deadline, until, last;
  };

  std::mutex mutex_;
  std::list<Waiting> waiting_;  // guarded by mutex_, by arrival
};

}  // namespace hmann::server
