#include "server/calls/unary_call.h"

#include "index/base/errors.h"
#include "server/calls/calls.h"
#include "server/core/errors.h"

namespace hmann::server {

void AnyCall::Queue(std::unique_ptr<QueuedRequest> work, bool here) {
  QueuedRequest* const job = work.get();
  before_ = std::move(owned_);
  owned_ = std::move(work);
  work_.store(job);
  if (cancelled_.load()) job->Cancel();
  // While some are refused, a batch of one takes its turn with the others.
  SearchPool& pool = calls_.serving().pool;
  pool.Start(
      job, [&] { return calls_.CallerOf(context_, method_); }, here && !pool.RefusesSome());
}

void AnyCall::Refuse(const absl::Status& status, const ServedIndex* index) {
  calls_.serving().metrics.Ended(method_, index, status, {}, 0);
  End(status);
}

void AnyCall::Cancel() {
  cancelled_.store(true);
  if (QueuedRequest* const work = work_.load(); work != nullptr) work->Cancel();
}

UnaryCall::UnaryCall(grpc::CallbackServerContext* context, Method method, Calls* calls,
                     WaitingRoom* room, Begin begin)
    : AnyCall(context, method, calls),
      Call(calls->unread(), /*is_stream=*/false, CopiesOf(method)),
      unread_(*calls->unread()),
      room_(*room),
      begin_(std::move(begin)),
      reply_(calls->replies(), [context] { context->TryCancel(); }) {}

void UnaryCall::Read() {
  unread_.Add(this);
  StartRead(&in_);
}

void UnaryCall::OnReadDone(bool ok) {
  const std::uint64_t bytes = ok ? in_.Length() : 0;
  if (!unread_.Remove(this, bytes)) return;
  calls_.LookIn();
  if (!ok) {
    if (!context().IsCancelled()) unread_.Refused(Peer());
    return Refuse(context().IsCancelled() ? absl::CancelledError("the client went away")
                                          : InvalidArgument("expected a request, found none"));
  }
  if (bytes > unread_.most_request()) return TooLong(unread_.most_request());
  grpc::ByteBuffer request;
  request.Swap(&in_);
  begin_(this, request);
}

void UnaryCall::OnDone() {
  Calls& calls = calls_;
  delete this;
  calls.LookIn();
}

void UnaryCall::OnCancel() {
  if (room_.Leave(this)) return Refuse(absl::CancelledError("the client went away"));
  Cancel();
}

void UnaryCall::End(const absl::Status& status) {
  if (!status.ok()) return Finish(EndOf(status, &context()));
  reply_.Sent(reply()->Length());
  StartWriteAndFinish(reply(), grpc::WriteOptions(), grpc::Status::OK);
}

void UnaryCall::RefuseForBytes() {
  constexpr std::chrono::seconds kComeAgain(1);  // a guess
  Refuse(MemoryFull(unread_.account().most(), kComeAgain));
}

void UnaryCall::TooLong(std::uint64_t bytes) { Refuse(RequestTooLarge(bytes)); }

}  // namespace hmann::server
