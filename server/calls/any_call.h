#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/core/jobs.h"

namespace hmann::server {

class Calls;

/// A request that is answered later: a call of its own, or a message of a stream.
class AnyCall {
 public:
  /// Both outlive this.
  AnyCall(grpc::CallbackServerContext* context, Method method, Calls* calls)
      : context_(*context), method_(method), calls_(*calls) {}
  virtual ~AnyCall() = default;
  AnyCall(const AnyCall&) = delete;
  AnyCall& operator=(const AnyCall&) = delete;

  grpc::CallbackServerContext& context() const { return context_; }
  /// Whether the thread that reads the request may do the work itself.
  virtual bool runs_here() const { return true; }
  /// Hands work to the pool. It is cancelled with the call. Its end may queue other work,
  /// once; the first then stays until the call has ended. `here`: as SearchPool::Start.
  /// The call may have ended when this returns.
  void Queue(std::unique_ptr<QueuedRequest> work, bool here);
  grpc::ByteBuffer* reply() { return &out_; }
  /// True once the client went away.
  const std::atomic<bool>& cancelled() const { return cancelled_; }
  /// Sends the reply, or this error. It may delete this.
  virtual void End(const absl::Status& status) = 0;
  /// Counts and sends an error of a call for `index` (null: unknown) that handed over no
  /// work.
  void Refuse(const absl::Status& status, const ServedIndex* index = nullptr);
  /// Stops the work soon. Callable from any thread.
  void Cancel();

 private:
  grpc::CallbackServerContext& context_;
  const Method method_;
  Calls& calls_;
  grpc::ByteBuffer out_;
  std::unique_ptr<QueuedRequest> before_, owned_;
  std::atomic<QueuedRequest*> work_{nullptr};  ///< owned_, for Cancel
  std::atomic<bool> cancelled_{false};
};

}  // namespace hmann::server
