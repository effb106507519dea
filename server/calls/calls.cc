#include "server/calls/calls.h"

#include <algorithm>
#include <string_view>

#include "server/core/caller.h"
#include "server/core/errors.h"

namespace hmann::server {
namespace {

/// A call that was answered on arrival.
class AnsweredCall : public grpc::ServerUnaryReactor {
 public:
  AnsweredCall(grpc::CallbackServerContext* context, ReplyWatch* replies,
               const absl::Status& status, std::uint64_t bytes)
      : reply_(replies, [context] { context->TryCancel(); }) {
    reply_.Sent(bytes);
    Finish(EndOf(status, context));
  }
  void OnDone() override { delete this; }

 private:
  ReplyWatch::Reply reply_;
};

/// The header that carries a token; empty without one.
std::string_view AuthorizationOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find("authorization");
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

/// Errors: RESOURCE_EXHAUSTED for a call with too much metadata.
absl::Status CheckHeaders(const grpc::CallbackServerContext& context) {
  constexpr std::size_t kMostHeaders = 16 << 10;
  std::size_t bytes = 0;
  for (const auto& [key, value] : context.client_metadata()) bytes += key.size() + value.size();
  return bytes <= kMostHeaders ? absl::OkStatus() : HeadersTooLarge(bytes, kMostHeaders);
}

}  // namespace

absl::StatusOr<Access> Calls::Authorized(const grpc::CallbackServerContext& context,
                                         Role needed) const {
  Access access(tokens_, AuthorizationOf(context));
  absl::Status status = CheckHeaders(context);
  if (status.ok()) status = access.Check(needed);
  if (status.ok()) return access;
  unread_.Refused(context.peer());
  return status;
}

absl::StatusOr<Access> Calls::MayAdminister(const grpc::CallbackServerContext& context) const {
  if (tokens_ == nullptr) {
    return absl::PermissionDeniedError(
        "hmann.v1.Admin is for tokens of role admin: start the server with --tokens");
  }
  return Authorized(context, Role::kAdmin);
}

absl::StatusOr<Access> Calls::MayStart(const grpc::CallbackServerContext& context, Method method) {
  if (stopping_.load(std::memory_order_relaxed)) {
    refused_.fetch_add(1);
    return ServerStopping();
  }
  if (method == Method::kAdmin) return MayAdminister(context);
  return Authorized(context, method >= Method::kPut ? Role::kWrite : Role::kRead);
}

grpc::ServerUnaryReactor* Calls::Finished(grpc::CallbackServerContext* context,
                                          const absl::Status& status, std::uint64_t bytes) {
  return new AnsweredCall(context, &replies_, status, bytes);
}

Caller Calls::CallerOf(const grpc::CallbackServerContext& context, Method method) const {
  return {tokens_ != nullptr ? CallerWith(AuthorizationOf(context)) : CallerAt(context.peer()),
          static_cast<std::uint64_t>(method)};
}

UnaryCall* Calls::NewCall(grpc::CallbackServerContext* context, Method method,
                          UnaryCall::Begin begin) {
  return new UnaryCall(context, method, this, &room_, std::move(begin));
}

grpc::ServerGenericBidiReactor* Calls::Unary(grpc::CallbackServerContext* context, Method method,
                                             Begin begin, bool may_wait) {
  absl::StatusOr<Access> access = MayStart(*context, method);
  UnaryCall* const call = NewCall(
      context, method,
      [access, begin = std::move(begin)](AnyCall* call, const grpc::ByteBuffer& bytes) mutable {
        begin(call, *access, bytes);
      });
  if (!access.ok()) {
    call->Refuse(access.status());
    return call;
  }
  const auto deadline = [&] { return DeadlineOf(serving_, {method, {}, CallDeadline(*context)}); };
  const bool pool_has_room = !may_wait || !serving_.pool.RefusesSome() ||
                             serving_.pool.MayHaveRoom(CallerOf(*context, method), deadline());
  if (pool_has_room && call->Reserve()) {
    call->Read();
  } else {
    room_.Add(call, CallerOf(*context, method), deadline());
  }
  return call;
}

void Calls::LookIn() {
  if (unread_.TakeStarved()) {
    std::vector<std::weak_ptr<StreamCall>> streams;
    {
      const std::lock_guard lock(mutex_);
      streams = streams_;
    }
    for (const std::weak_ptr<StreamCall>& weak : streams)
      if (const std::shared_ptr<StreamCall> stream = weak.lock()) stream->LookIn();
  }
  room_.LookIn(QueuedRequest::Clock::now(), [&](Caller caller, auto deadline) {
    return serving_.pool.MayHaveRoom(caller, deadline);
  });
}

grpc::ServerGenericBidiReactor* Calls::Stream(grpc::CallbackServerContext* context, Method method,
                                              const MakeStream& make) {
  absl::StatusOr<Access> access = MayStart(*context, method);
  if (!access.ok()) {
    UnaryCall* const call = NewCall(context, method, nullptr);
    call->Refuse(access.status());
    return call;
  }
  const std::shared_ptr<StreamCall> stream = make(*std::move(access));
  stream->Start();
  {
    const std::lock_guard lock(mutex_);
    // The list holds at most twice as many as are live.
    if (streams_.size() == streams_.capacity())
      std::erase_if(streams_, [](const auto& ended) { return ended.expired(); });
    streams_.push_back(stream);
  }
  if (stopping_.load()) stream->End(ServerStopping());
  return stream.get();
}

void Calls::Stop() {
  stopping_.store(true);
  room_.Close(ServerStopping());
  std::vector<std::weak_ptr<StreamCall>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams.swap(streams_);
  }
  for (const std::weak_ptr<StreamCall>& weak : streams) {
    if (const std::shared_ptr<StreamCall> stream = weak.lock()) stream->End(ServerStopping());
  }
}

}  // namespace hmann::server
