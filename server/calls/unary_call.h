#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/calls/grpc_status.h"
#include "server/calls/raw_message.h"
#include "server/calls/waiting_room.h"
#include "server/connections/reply_watch.h"
#include "server/connections/unread_requests.h"
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

 protected:
  Calls& calls_;

 private:
  grpc::ByteBuffer out_;
  std::unique_ptr<QueuedRequest> before_, owned_;
  std::atomic<QueuedRequest*> work_{nullptr};  ///< owned_, for Cancel
  std::atomic<bool> cancelled_{false};
};

/// A call with one large request and one reply. gRPC creates it when the headers have
/// come. The request is read later, so that a refused call takes no memory for its
/// request.
///
/// It deletes itself when gRPC is done with it, which is after End or Refuse.
class UnaryCall final : public grpc::ServerGenericBidiReactor,
                        public AnyCall,
                        private UnreadRequests::Call {
 public:
  /// Gets the bytes of the request. It hands over the work with Queue, whose end calls
  /// End, or ends the call with Refuse.
  using Begin = std::function<void(AnyCall*, const grpc::ByteBuffer&)>;

  /// All outlive this.
  UnaryCall(grpc::CallbackServerContext* context, Method method, Calls* calls, WaitingRoom* room,
            Begin begin);
  /// Takes bytes for the request from the account. Returns false if there is no room.
  bool Reserve() { return unread_.Reserve(this); }
  /// Starts to read after Reserve. `begin` is called once the request has come.
  void Read();
  void End(const absl::Status& status) override;
  /// Refuses the call: the account had no room for its request.
  void RefuseForBytes();

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  friend class WaitingRoom;
  std::string Peer() const override { return context().peer(); }
  void TooLong(std::uint64_t bytes) override;

  UnreadRequests& unread_;
  WaitingRoom& room_;
  const Begin begin_;
  ReplyWatch::Reply reply_;
  grpc::ByteBuffer in_;
  std::list<WaitingRoom::Waiting>::iterator place_;  ///< of the room, as the next
  bool waits_ = false;
};

/// A call with one small request, which gRPC has read before it creates the call: this
/// takes the processor 50 us less than a UnaryCall (serve_bench on a virtual Zen 5). It
/// does the work too, on top of the core class `Request`, and deletes itself when gRPC is
/// done with it.
template <typename Request>
class SmallCall : public grpc::ServerUnaryReactor, public Request {
 public:
  /// Where a reply goes.
  struct To {
    grpc::CallbackServerContext* context;
    grpc::ByteBuffer* bytes;
    ReplyWatch* watch;
  };

  template <typename... Arguments>
  explicit SmallCall(const To& to, Arguments&&... arguments)
      : Request(std::forward<Arguments>(arguments)...),
        context_(*to.context),
        out_(*to.bytes),
        reply_(to.watch, [context = to.context] { context->TryCancel(); }) {}

  void OnCancel() final { this->Cancel(); }
  void OnDone() final { delete this; }

 protected:
  virtual const google::protobuf::MessageLite& Message() = 0;
  absl::Status Reply() override { return Write(Message(), &out_); }

 private:
  void End(const absl::Status& status) final {
    reply_.Sent(out_.Length());
    Finish(EndOf(status, &context_));
  }

  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer& out_;
  ReplyWatch::Reply reply_;
};

/// The work of a call, on top of the core class `Request`.
template <typename Request>
class UnaryWork : public Request {
 public:
  using To = AnyCall*;

  template <typename... Arguments>
  explicit UnaryWork(AnyCall* call, Arguments&&... arguments)
      : Request(std::forward<Arguments>(arguments)...), call_(*call) {}

 protected:
  virtual const google::protobuf::MessageLite& Message() = 0;
  AnyCall& on_call() { return call_; }
  absl::Status Reply() override { return Write(Message(), call_.reply()); }
  void End(const absl::Status& status) override { call_.End(status); }

 private:
  AnyCall& call_;
};

}  // namespace hmann::server
