#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"
#include "hmann/v1/admin.grpc.pb.h"
#include "server/core/metrics.h"

namespace hmann::server {

class SearchService;
class Server;

/// Implements hmann.v1.Admin over a server. Each call needs a token of role admin.
class AdminService : public v1::Admin::CallbackService {
 public:
  /// All must outlive this. `search` knows the tokens.
  AdminService(Server* server, const SearchService* search, Metrics* metrics)
      : server_(*server), search_(*search), metrics_(*metrics) {}

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
  /// Ends a call with the outcome of `work`, which only runs if the caller may call.
  template <typename Work>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const Work& work);

  Server& server_;
  const SearchService& search_;
  Metrics& metrics_;
};

}  // namespace hmann::server
