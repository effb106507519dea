#include "server/calls/stream_call.h"

#include <utility>

#include "server/calls/grpc_status.h"
#include "server/core/errors.h"

namespace hmann::server {

v1::Failure FailureOf(const absl::Status& status) {
  const grpc::Status end = ToGrpc(status);
  v1::Failure failure;
  failure.set_code(static_cast<std::int32_t>(end.error_code()));
  failure.set_message(end.error_message());
  failure.set_details(end.error_details());
  return failure;
}

StreamCall::StreamCall(Method method, std::size_t most_unanswered, Metrics* metrics,
                       ReplyWatch* replies, UnreadRequests* unread,
                       grpc::CallbackServerContext* call)
    : Call(unread, /*is_stream=*/true, CopiesOf(method)),
      method_(method),
      most_unanswered_(most_unanswered),
      metrics_(*metrics),
      unread_(*unread),
      context_(*call),
      reply_(replies, [call] { call->TryCancel(); }) {}

void StreamCall::Start() {
  self_ = shared_from_this();
  Settle(false);
}

void StreamCall::End(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    no_more_ = true;
    end_ = status;
  }
  Settle(false);
}

bool StreamCall::MayRead() {
  return !reading_ && !no_more_ && unanswered_ < most_unanswered_ && unread_.Reserve(this);
}

void StreamCall::Settle(bool here) {
  // Work started below may end before this returns.
  const std::shared_ptr<StreamCall> alive = shared_from_this();
  for (;;) {
    bool read = false, write = false, finish = false;
    Work work;
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_) {
        open_ -= Drop();
        replies_.clear();
      }
      if (MayRead()) reading_ = read = true;
      if (!writing_ && !replies_.empty()) {
        out_.Swap(&replies_.front());
        out_bytes_ = out_.Length();
        replies_.pop_front();
        writing_ = write = true;
      }
      work = Next();
      if (no_more_ && open_ == 0 && replies_.empty() && !writing_ && !finished_)
        finished_ = finish = true;
    }
    if (read) {
      unread_.Add(this);
      StartRead(&in_);
    }
    if (write) StartWrite(&out_);
    if (finish) Finish(EndOf(end_, &context_));
    if (work == nullptr) return;
    work(here);
  }
}

void StreamCall::Answered(std::span<const grpc::ByteBuffer> replies) {
  {
    const std::lock_guard lock(mutex_);
    unread_.GiveBack(this, replies.size(), open_);
    open_ -= replies.size();
    for (const grpc::ByteBuffer& reply : replies) {
      reply_.Sent(reply.Length());
      replies_.push_back(reply);
    }
  }
  Settle(false);
}

void StreamCall::Send(const grpc::ByteBuffer& reply) {
  {
    const std::lock_guard lock(mutex_);
    ++open_;
    ++unanswered_;
  }
  Answered(reply);
}

void StreamCall::Close(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    --open_;
    no_more_ = true;
    end_.Update(status);
  }
  Settle(false);
}

void StreamCall::TooLong(std::uint64_t bytes) {
  const absl::Status status = RequestTooLarge(bytes);
  metrics_.Ended(method_, nullptr, status, {}, 0);
  End(status);
}

void StreamCall::OnReadDone(bool ok) {
  const std::uint64_t bytes = ok ? in_.Length() : 0;
  if (!unread_.Remove(this, bytes)) return;
  if (!ok && !in_.Valid()) Refused();  // it has never sent a request
  if (ok) {
    const std::lock_guard lock(mutex_);
    ++open_;
    ++unanswered_;
  }
  const std::uint64_t most = unread_.most_request();
  const absl::Status taken = !ok            ? absl::OkStatus()
                             : bytes > most ? RequestTooLarge(most)
                                            : Take(in_);
  {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    no_more_ |= !ok || !taken.ok();
    end_.Update(taken);
    open_ -= taken.ok() ? 0 : 1;
  }
  Settle(true);
}

void StreamCall::OnWriteDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    reply_.Taken(out_bytes_);
    --unanswered_;
    if (!ok) cancelled_ = no_more_ = true;
  }
  Settle(false);
}

void StreamCall::OnCancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = no_more_ = true;
  }
  Settle(false);
}

void StreamCall::OnDone() {
  // Settle may keep this alive a moment longer.
  const std::shared_ptr<StreamCall> last = std::move(self_);
}

}  // namespace hmann::server
