#pragma once

#include <cstdint>

#include "grpcpp/generic/async_generic_service.h"
#include "hmann/v1/search.grpc.pb.h"
#include "server/calls/calls.h"
#include "server/vald/service.h"
#include "server/write_service.h"

namespace hmann::server {

/// Implements hmann.v1.Search over a registry. gRPC's thread reads and checks each
/// request, and the pool answers it. On an idle server, gRPC's thread answers a single
/// narrow search itself. A request ends early when its client's deadline passes or the
/// client cancels.
///
/// The methods that gRPC calls "generic" are CreateReactor's. gRPC starts these before
/// their request has come, so a call can be refused first. A stream checks the rights of
/// its client for each query.
class SearchService
    : public v1::Search::WithGenericMethod_Search<
          v1::Search::WithGenericMethod_SearchBatch<v1::Search::WithGenericMethod_SearchStream<
              v1::Search::WithGenericMethod_Get<v1::Search::WithCallbackMethod_Describe<
                  v1::Search::WithCallbackMethod_List<v1::Search::Service>>>>>>,
      public grpc::CallbackGenericService,
      public Calls {
 public:
  /// As Calls. Describe reports `max_request_bytes`.
  SearchService(const Serving& serving, std::uint64_t max_request_bytes, ReplyWatch* replies,
                UnreadRequests* unread)
      : Calls(serving, replies, unread), max_request_bytes_(max_request_bytes) {}

  /// Answers the calls of hmann.v1.Write, and those of Vald (null: not). Call it before
  /// the server starts. Does not take ownership.
  void AnswerAlso(WriteService* writes, ValdService* vald) {
    writes_ = writes;
    vald_ = vald;
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListRequest* request,
                                 v1::ListResponse* response) override;

  /// Admin.ExactSearch, by the pool, with the limits and the deadline of a search.
  grpc::ServerUnaryReactor* SearchExactly(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request, grpc::ByteBuffer* reply);

 private:
  grpc::ServerGenericBidiReactor* StreamSearches(grpc::CallbackServerContext* context);

  const std::uint64_t max_request_bytes_;
  WriteService* writes_ = nullptr;
  ValdService* vald_ = nullptr;
};

}  // namespace hmann::server
