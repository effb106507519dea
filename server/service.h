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

/// hmann.v1.Search over a registry: requests are read and checked in gRPC's thread,
/// answered in the pool (a single narrow search on an idle server in gRPC's thread), and
/// end with their client's deadline or cancellation.
class SearchService
    : public v1::Search::WithRawCallbackMethod_Search<v1::Search::WithRawCallbackMethod_SearchBatch<
          v1::Search::WithRawCallbackMethod_SearchStream<
              v1::Search::WithRawCallbackMethod_Get<v1::Search::WithCallbackMethod_Describe<
                  v1::Search::WithCallbackMethod_List<v1::Search::Service>>>>>> {
 public:
  /// `registry`, `pool`, `metrics` and `replies` must outlive the service.
  /// `limits.max_query_threads` is resolved; `max_request_bytes` is what Describe says.
  SearchService(const Registry* registry, SearchPool* pool, const RequestLimits& limits,
                std::uint64_t max_request_bytes, std::chrono::nanoseconds default_deadline,
                Metrics* metrics, ReplyWatch* replies)
      : serving_{*registry, *pool, limits, default_deadline, *metrics},
        max_request_bytes_(max_request_bytes),
        replies_(*replies) {}

  /// From then on calls need a token. Before the server starts; not owned.
  void RequireTokens(const TokenFile* tokens) { tokens_ = tokens; }

  /// Refuses searches from now on: UNAVAILABLE, SERVER_STOPPING. Those taken before go
  /// on; streams end so when theirs are answered. Any thread.
  void Stop();
  /// Searches refused since Stop.
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
  /// Ends a call at once, with a reply of so many bytes.
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
  std::vector<std::weak_ptr<StreamCall>> streams_;  // guarded by mutex_; some have ended
};

}  // namespace hmann::server
