#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "hmann/v1/search.grpc.pb.h"
#include "server/connections/reply_watch.h"
#include "server/core/jobs.h"
#include "server/core/tokens.h"
#include "server/stream_call.h"

namespace hmann::server {

/// Implements hmann.v1.Search over a registry. gRPC's thread reads and checks each
/// request, and the pool answers it. On an idle server, gRPC's thread answers a single
/// narrow search itself. A request ends early when its client's deadline passes or the
/// client cancels.
class SearchService
    : public v1::Search::WithRawCallbackMethod_Search<v1::Search::WithRawCallbackMethod_SearchBatch<
          v1::Search::WithRawCallbackMethod_SearchStream<
              v1::Search::WithRawCallbackMethod_Get<v1::Search::WithCallbackMethod_Describe<
                  v1::Search::WithCallbackMethod_List<v1::Search::Service>>>>>> {
 public:
  /// `registry`, `pool`, `metrics` and `replies` must outlive the service.
  /// `limits.max_query_threads` is already resolved. Describe reports
  /// `max_request_bytes`.
  SearchService(const Registry* registry, SearchPool* pool, const RequestLimits& limits,
                std::uint64_t max_request_bytes, std::chrono::nanoseconds default_deadline,
                Metrics* metrics, ReplyWatch* replies)
      : serving_{*registry, *pool, limits, default_deadline, *metrics},
        max_request_bytes_(max_request_bytes),
        replies_(*replies) {}

  /// Requires a token for every call. Call it before the server starts. Does not take
  /// ownership.
  void RequireTokens(const TokenFile* tokens) { tokens_ = tokens; }

  /// Refuses new searches: UNAVAILABLE, SERVER_STOPPING. Accepted searches continue; a
  /// stream ends the same way once its accepted queries are answered. Callable from any
  /// thread.
  void Stop();
  /// The number of searches refused since Stop.
  std::uint64_t refused() const { return refused_.load(); }

  using WithRawCallbackMethod_Get::Get;
  using WithRawCallbackMethod_Search::Search;
  using WithRawCallbackMethod_SearchBatch::SearchBatch;
  using WithRawCallbackMethod_SearchStream::SearchStream;
  grpc::ServerUnaryReactor* Search(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* SearchBatch(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* reply) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SearchStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const grpc::ByteBuffer* request, grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListRequest* request,
                                 v1::ListResponse* response) override;

 private:
  template <typename Call>
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer& bytes, grpc::ByteBuffer* reply);
  /// Ends a call immediately, with a reply of `bytes` bytes.
  grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context,
                                     const absl::Status& status, std::uint64_t bytes);
  absl::Status MayStart(const grpc::CallbackServerContext& context);
  absl::Status Authorized(const grpc::CallbackServerContext& context, Role needed) const;
  std::uint64_t CallerOf(const grpc::CallbackServerContext& context) const;

  const Serving serving_;
  const std::uint64_t max_request_bytes_;
  ReplyWatch& replies_;
  const TokenFile* tokens_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> refused_{0};
  std::mutex mutex_;
  std::vector<std::weak_ptr<StreamCall>> streams_;  // guarded by mutex_; some ended
};

}  // namespace hmann::server
