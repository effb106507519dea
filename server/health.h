#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"

namespace hmann {

/// grpc.health.v1: what is registered is NOT_SERVING until it is set. (gRPC's own default
/// service says SERVING before anything is loaded, so it is off.) Check of an unknown
/// name: NOT_FOUND; Watch: SERVICE_UNKNOWN. A Watch sends each change, though of several
/// quick ones perhaps only the last.
///
/// Thread safety: all from any thread.
class HealthService : public grpc::health::v1::Health::CallbackService {
 public:
  using Serving = grpc::health::v1::HealthCheckResponse::ServingStatus;

  void Register(const std::string& service);
  /// Without effect once BeginDrain was called.
  void Set(const std::string& service, bool serving);
  /// Everything NOT_SERVING, for good.
  void BeginDrain();
  /// Ends every Watch, now and later, with UNAVAILABLE: a server cannot shut down while
  /// one runs.
  void EndWatches();

  /// SERVICE_UNKNOWN for what is not registered.
  Serving Status(const std::string& service) const;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class Watcher;
  void Poke(const std::string* service);
  void Forget(Watcher* watcher);

  mutable std::mutex mutex_;
  std::map<std::string, Serving> statuses_;
  std::vector<std::shared_ptr<Watcher>> watchers_;
  bool draining_ = false;
  bool ended_ = false;
};

}  // namespace hmann
