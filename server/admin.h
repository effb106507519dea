#pragma once

#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"
#include "hmann/v1/admin.grpc.pb.h"
#include "server/core/metrics.h"

namespace hmann::server {

class Access;
class SearchService;
class Server;

/// Implements hmann.v1.Admin over a server. Each call needs a token of role admin.
class AdminService
    : public v1::Admin::WithRawCallbackMethod_ExactSearch<
          v1::Admin::WithCallbackMethod_Load<v1::Admin::WithCallbackMethod_Swap<
              v1::Admin::WithCallbackMethod_Unload<v1::Admin::WithCallbackMethod_Status<
                  v1::Admin::WithCallbackMethod_Drain<v1::Admin::Service>>>>>> {
 public:
  /// All must outlive this. `search` knows the tokens.
  AdminService(Server* server, SearchService* search, Metrics* metrics)
      : server_(*server), search_(*search), metrics_(*metrics) {}

  grpc::ServerUnaryReactor* ExactSearch(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* Load(grpc::CallbackServerContext* context,
                                 const v1::LoadRequest* request,
                                 v1::LoadResponse* response) override;
  grpc::ServerUnaryReactor* Swap(grpc::CallbackServerContext* context,
                                 const v1::SwapRequest* request,
                                 v1::LoadResponse* response) override;
  grpc::ServerUnaryReactor* Unload(grpc::CallbackServerContext* context,
                                   const v1::UnloadRequest* request,
                                   v1::UnloadResponse* response) override;
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::StatusRequest* request,
                                   v1::StatusResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;

 private:
  /// Errors: those of Access::Check; PERMISSION_DENIED for files (empty: none) that only
  /// an operator of all indexes may name.
  absl::Status Check(Access& access, const std::string& index,
                     std::initializer_list<std::string> files);
  /// Ends a call with the outcome of `work`, which only runs if the caller has the role.
  template <typename Work>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const Work& work);

  Server& server_;
  SearchService& search_;
  Metrics& metrics_;
};

}  // namespace hmann::server
