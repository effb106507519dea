#include "server/unary_call.h"

#include "index/base/errors.h"
#include "server/core/errors.h"

namespace hmann::server {

UnaryCall::UnaryCall(grpc::CallbackServerContext* context, Method method, const Serving& serving,
                     ReplyWatch* replies, UnreadRequests* unread, WaitingRoom* room, Begin begin)
    : Call(/*is_stream=*/false),
      context_(*context),
      method_(method),
      serving_(serving),
      unread_(*unread),
      room_(*room),
      begin_(std::move(begin)),
      reply_(replies, [context] { context->TryCancel(); }) {}

void UnaryCall::Read() {
  unread_.Add(this);
  StartRead(&in_);
}

void UnaryCall::OnReadDone(bool ok) {
  if (!unread_.Remove(this)) return;
  if (!ok) {
    if (!context_.IsCancelled()) unread_.Refused(Peer());
    return Refuse(context_.IsCancelled() ? absl::CancelledError("the client went away")
                                         : InvalidArgument("expected a request, found none"));
  }
  begin_(this, in_);
}

void UnaryCall::Keep(std::unique_ptr<QueuedRequest> work) {
  in_.Clear();
  owned_ = std::move(work);
  work_.store(owned_.get());
  if (cancelled_.load()) owned_->Cancel();
}

void UnaryCall::OnCancel() {
  if (room_.Leave(this)) return Refuse(absl::CancelledError("the client went away"));
  cancelled_.store(true);
  if (QueuedRequest* const work = work_.load(); work != nullptr) work->Cancel();
}

void UnaryCall::End(const absl::Status& status) {
  if (!status.ok()) return Finish(EndOf(status, &context_));
  reply_.Sent(out_.Length());
  StartWriteAndFinish(&out_, grpc::WriteOptions(), grpc::Status::OK);
}

void UnaryCall::Refuse(const absl::Status& status, const ServedIndex* index) {
  serving_.metrics.Ended(method_, index, status, {}, 0);
  End(status);
}

void UnaryCall::TooLong(std::uint64_t bytes) { Refuse(RequestTooLarge(bytes)); }

}  // namespace hmann::server
