#pragma once

#include <utility>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/connections/reply_watch.h"
#include "server/grpc_status.h"
#include "server/raw_message.h"

namespace hmann::server {

/// Where a reply goes.
struct ReplyTo {
  grpc::CallbackServerContext* context;
  grpc::ByteBuffer* bytes;
  ReplyWatch* watch;
};

/// A call that waits for the pool, on top of the core class `Request`. gRPC and the pool
/// both hold it. It deletes itself when gRPC is done with it, which is after End.
template <typename Request>
class UnaryCall : public grpc::ServerUnaryReactor, public Request {
 public:
  template <typename... Arguments>
  explicit UnaryCall(const ReplyTo& to, Arguments&&... arguments)
      : Request(std::forward<Arguments>(arguments)...),
        out_(*to.bytes),
        reply_(to.watch, [context = to.context] { context->TryCancel(); }) {}

  void OnCancel() final { this->Cancel(); }
  void OnDone() final { delete this; }

 protected:
  virtual const google::protobuf::MessageLite& Message() = 0;

 private:
  absl::Status Reply() final { return Write(Message(), &out_); }
  void End(const absl::Status& status) final {
    reply_.Sent(out_.Length());
    Finish(ToGrpc(status));
  }

  grpc::ByteBuffer& out_;
  ReplyWatch::Reply reply_;
};

}  // namespace hmann::server
