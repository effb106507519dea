#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "grpcpp/generic/async_generic_service.h"
#include "hmann/v1/search.grpc.pb.h"
#include "server/connections/reply_watch.h"
#include "server/connections/unread_requests.h"
#include "server/core/jobs.h"
#include "server/core/tokens.h"
#include "server/search_stream.h"
#include "server/stream_call.h"
#include "server/unary_call.h"
#include "server/waiting_room.h"
#include "server/write_service.h"

namespace hmann::server {

/// Implements hmann.v1.Search over a registry. gRPC's thread reads and checks each
/// request, and the pool answers it. On an idle server, gRPC's thread answers a single
/// narrow search itself. A request ends early when its client's deadline passes or the
/// client cancels.
///
/// The methods that gRPC calls "generic" are CreateReactor's. gRPC starts these before
/// their request has come, so a call can be refused first.
///
/// Rights are checked by Access: when a call arrives, before its request is read, and
/// when its request names the index. A stream checks them for each query.
class SearchService
    : public v1::Search::WithRawCallbackMethod_Search<
          v1::Search::WithGenericMethod_SearchBatch<v1::Search::WithGenericMethod_SearchStream<
              v1::Search::WithGenericMethod_Get<v1::Search::WithCallbackMethod_Describe<
                  v1::Search::WithCallbackMethod_List<v1::Search::Service>>>>>>,
      public grpc::CallbackGenericService {
 public:
  /// `registry`, `pool`, `metrics`, `replies` and `unread` must outlive the service.
  /// `limits.max_query_threads` is already resolved. Describe reports
  /// `max_request_bytes`.
  SearchService(const Registry* registry, SearchPool* pool, const RequestLimits& limits,
                std::uint64_t max_request_bytes, std::chrono::nanoseconds default_deadline,
                Metrics* metrics, ReplyWatch* replies, UnreadRequests* unread)
      : serving_{*registry, *pool, limits, default_deadline, *metrics},
        max_request_bytes_(max_request_bytes),
        replies_(*replies),
        unread_(*unread) {}

  /// Requires a token for every call. Call it before the server starts. Does not take
  /// ownership.
  void RequireTokens(const TokenFile* tokens) { tokens_ = tokens; }

  /// Answers the calls of hmann.v1.Write. Call it before the server starts. Does not take
  /// ownership.
  void AnswerWrites(WriteService* writes) { writes_ = writes; }

  /// Refuses new searches and writes: UNAVAILABLE, SERVER_STOPPING. Accepted ones
  /// continue; a stream ends the same way once its accepted queries are answered.
  /// Callable from any thread.
  void Stop();
  /// Lets waiting calls in if there is room. To be called often.
  void LookIn();
  /// The number of searches refused since Stop.
  std::uint64_t refused() const { return refused_.load(); }

  using WithRawCallbackMethod_Search::Search;
  grpc::ServerUnaryReactor* Search(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* reply) override;
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListRequest* request,
                                 v1::ListResponse* response) override;

  /// What the sender of a call of hmann.v1.Admin may do. Errors: those of Access::Check
  /// for the role admin; PERMISSION_DENIED without tokens.
  absl::StatusOr<Access> MayAdminister(const grpc::CallbackServerContext& context) const;
  /// Admin.ExactSearch, by the pool, with the limits and the deadline of a search.
  grpc::ServerUnaryReactor* SearchExactly(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request, grpc::ByteBuffer* reply);

 private:
  grpc::ServerGenericBidiReactor* BeginWrite(grpc::CallbackServerContext* context,
                                             WriteService::Begin begin);
  UnaryCall* NewCall(grpc::CallbackServerContext* context, Method method, UnaryCall::Begin begin);
  template <typename Work>
  grpc::ServerGenericBidiReactor* Unary(grpc::CallbackServerContext* context);
  template <typename Work, typename To>
  absl::StatusOr<std::unique_ptr<Work>> Make(const To& to, Access& access,
                                             const grpc::CallbackServerContext& context,
                                             const grpc::ByteBuffer& bytes,
                                             std::shared_ptr<ServedIndex>* named) const;
  template <typename Work>
  void Begin(UnaryCall* call, Access& access, const grpc::ByteBuffer& bytes);
  template <typename Work>
  grpc::ServerUnaryReactor* Small(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer& request, grpc::ByteBuffer* reply);
  grpc::ServerGenericBidiReactor* Stream(grpc::CallbackServerContext* context, Method method);
  StreamCall* Started(const std::shared_ptr<StreamCall>& stream);
  /// Ends a call immediately, with a reply of `bytes` bytes.
  grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context,
                                     const absl::Status& status, std::uint64_t bytes);
  absl::StatusOr<Access> MayStart(const grpc::CallbackServerContext& context, Method method);
  absl::StatusOr<Access> Authorized(const grpc::CallbackServerContext& context, Role needed) const;
  Caller CallerOf(const grpc::CallbackServerContext& context, Method method) const;

  const Serving serving_;
  const std::uint64_t max_request_bytes_;
  ReplyWatch& replies_;
  UnreadRequests& unread_;
  WaitingRoom room_;
  const TokenFile* tokens_ = nullptr;
  WriteService* writes_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> refused_{0};
  std::mutex mutex_;
  std::vector<std::weak_ptr<StreamCall>> streams_;  // guarded by mutex_; some ended
};

}  // namespace hmann::server
