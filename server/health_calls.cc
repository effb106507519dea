#include "server/health_calls.h"

#include <chrono>

#include "absl/strings/match.h"

namespace hmann::server {
namespace {

class CountedHealthCall : public grpc::experimental::Interceptor {
 public:
  explicit CountedHealthCall(Metrics* metrics) : metrics_(*metrics) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      metrics_.Ended(
          Method::kHealth, nullptr,
          absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()),
          Clock::now() - began_, 0);
    }
    methods->Proceed();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Metrics& metrics_;
  const Clock::time_point began_ = Clock::now();
};

}  // namespace

grpc::experimental::Interceptor* HealthCallCounter::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* call) {
  // gRPC owns what is returned.
  return absl::StartsWith(call->method(), "/grpc.health.v1.Health/")
             ? new CountedHealthCall(&metrics_)
             : nullptr;
}

}  // namespace hmann::server
