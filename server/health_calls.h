#pragma once

#include "grpcpp/support/server_interceptor.h"
#include "server/core/metrics.h"

namespace hmann::server {

/// Counts the calls of grpc.health.v1 and their failures. gRPC itself answers them, so
/// nothing else of this server sees them.
class HealthCallCounter : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  /// `metrics` must outlive the server.
  explicit HealthCallCounter(Metrics* metrics) : metrics_(*metrics) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override;

 private:
  Metrics& metrics_;
};

}  // namespace hmann::server
