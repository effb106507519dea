#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/generic/async_generic_service.h"
#include "index/base/status_macros.h"
#include "server/calls/stream_call.h"
#include "server/calls/unary_call.h"
#include "server/calls/waiting_room.h"
#include "server/connections/reply_watch.h"
#include "server/connections/unread_requests.h"
#include "server/core/jobs.h"
#include "server/core/tokens.h"

namespace hmann::server {

/// Begins the calls of the services of a server: it checks rights, lets calls wait for
/// room, reads their requests, and hands their work to the pool.
///
/// `Work` derives from SmallCall or UnaryWork. It has a type `Request`, a `kMethod`, and
/// `Read(serving, request)`, whose result its constructor takes: (to, request, serving,
/// what was read, facts).
///
/// Rights are checked by Access: when a call arrives, before its request is read, and
/// when its request names the index.
class Calls {
 public:
  /// All outlive this, and `serving.limits.max_query_threads` is already resolved.
  Calls(const Serving& serving, ReplyWatch* replies, UnreadRequests* unread)
      : serving_(serving), replies_(*replies), unread_(*unread) {}

  const Serving& serving() const { return serving_; }
  ReplyWatch* replies() { return &replies_; }
  UnreadRequests* unread() { return &unread_; }

  /// Requires a token for every call. Call it before the server starts. Does not take
  /// ownership.
  void RequireTokens(const TokenFile* tokens) { tokens_ = tokens; }

  /// Refuses new calls: UNAVAILABLE, SERVER_STOPPING. Accepted ones continue; a stream
  /// ends the same way once its accepted requests are answered. Callable from any thread.
  void Stop();
  /// Lets waiting calls in if there is room, and waiting streams read. To be called
  /// often.
  void LookIn();
  /// The number of calls refused since Stop.
  std::uint64_t refused() const { return refused_.load(); }

  /// What the sender of a call of an operator may do. Errors: those of Access::Check for
  /// the role admin; PERMISSION_DENIED without tokens.
  absl::StatusOr<Access> MayAdminister(const grpc::CallbackServerContext& context) const;
  absl::StatusOr<Access> Authorized(const grpc::CallbackServerContext& context, Role needed) const;
  /// What the sender of a call may do now. Errors also: UNAVAILABLE after Stop.
  absl::StatusOr<Access> MayStart(const grpc::CallbackServerContext& context, Method method);
  Caller CallerOf(const grpc::CallbackServerContext& context, Method method) const;
  /// Ends a call immediately, with a reply of `bytes` bytes.
  grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context,
                                     const absl::Status& status, std::uint64_t bytes);

  /// A call whose small request is here.
  template <typename Work>
  grpc::ServerUnaryReactor* Small(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer& request, grpc::ByteBuffer* reply);
  /// Begins the work for a request, or ends its call.
  using Begin = std::function<void(AnyCall* call, Access& access, const grpc::ByteBuffer& bytes)>;
  template <typename Work>
  void BeginWork(AnyCall* call, Access& access, const grpc::ByteBuffer& bytes);
  /// A call whose request is read once its sender may send it, and there are bytes for
  /// it. `may_wait`: for room in the pool, too.
  grpc::ServerGenericBidiReactor* Unary(grpc::CallbackServerContext* context, Method method,
                                        Begin begin, bool may_wait);
  template <typename Work>
  grpc::ServerGenericBidiReactor* Unary(grpc::CallbackServerContext* context) {
    const auto begin = [this](AnyCall* call, Access& access, const grpc::ByteBuffer& bytes) {
      BeginWork<Work>(call, access, bytes);
    };
    return Unary(context, Work::kMethod, begin, Work::kMethod != Method::kSearch);
  }
  using MakeStream = std::function<std::shared_ptr<StreamCall>(Access access)>;
  grpc::ServerGenericBidiReactor* Stream(grpc::CallbackServerContext* context, Method method,
                                         const MakeStream& make);

 protected:
  const Serving serving_;
  ReplyWatch& replies_;
  UnreadRequests& unread_;

 private:
  template <typename Work, typename To>
  absl::StatusOr<std::unique_ptr<Work>> Make(const To& to, Access& access,
                                             const grpc::CallbackServerContext& context,
                                             const grpc::ByteBuffer& bytes,
                                             std::shared_ptr<ServedIndex>* named) const;
  UnaryCall* NewCall(grpc::CallbackServerContext* context, Method method, UnaryCall::Begin begin);

  WaitingRoom room_;
  const TokenFile* tokens_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> refused_{0};
  std::mutex mutex_;
  std::vector<std::weak_ptr<StreamCall>> streams_;  // guarded by mutex_; some ended
};

/// The index that a request names, or that its protocol stands for.
template <typename Request>
const std::string& IndexOf(const Serving& serving, const Request& request) {
  if constexpr (requires { request.index(); }) {
    return request.index();
  } else {
    return serving.nameless;
  }
}

/// The work for a request. On errors, `named` is the index that it names, or null.
template <typename Work, typename To>
absl::StatusOr<std::unique_ptr<Work>> Calls::Make(const To& to, Access& access,
                                                  const grpc::CallbackServerContext& context,
                                                  const grpc::ByteBuffer& bytes,
                                                  std::shared_ptr<ServedIndex>* named) const {
  constexpr Role kNeeded = Work::kMethod == Method::kAdmin ? Role::kAdmin : Role::kRead;
  const CallFacts facts{Work::kMethod, QueuedRequest::Clock::now(), CallDeadline(context)};
  auto request = std::make_unique<typename Work::Request>();
  HMANN_RETURN_IF_ERROR(Read(bytes, request.get()));
  HMANN_RETURN_IF_ERROR(access.Check(kNeeded, IndexOf(serving_, *request)));
  auto read = Work::Read(serving_, *request);
  if (!read.ok()) {
    *named = serving_.registry.Named(IndexOf(serving_, *request));
    return read.status();
  }
  return std::make_unique<Work>(to, std::move(request), serving_, *std::move(read), facts);
}

template <typename Work>
grpc::ServerUnaryReactor* Calls::Small(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer& request, grpc::ByteBuffer* reply) {
  std::shared_ptr<ServedIndex> named;
  if (!request.Valid()) unread_.Refused(context->peer());
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<Work>> {
    HMANN_ASSIGN_OR_RETURN(Access access, MayStart(*context, Work::kMethod));
    const typename Work::To to{context, reply, &replies_};
    return Make<Work>(to, access, *context, request, &named);
  };
  auto made = make();
  if (!made.ok()) {
    serving_.metrics.Ended(Work::kMethod, named.get(), made.status(), {}, 0);
    return Reply(context, made.status());
  }
  Work* const call = made->release();  // deletes itself
  serving_.pool.Start(call, [&] { return CallerOf(*context, Work::kMethod); });
  return call;
}

template <typename Work>
void Calls::BeginWork(AnyCall* call, Access& access, const grpc::ByteBuffer& bytes) {
  std::shared_ptr<ServedIndex> named;
  auto work = Make<Work>(call, access, call->context(), bytes, &named);
  if (!work.ok()) return call->Refuse(work.status(), named.get());
  call->Queue(*std::move(work), call->runs_here());
}

}  // namespace hmann::server
