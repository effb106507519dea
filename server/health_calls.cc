#include "server/health_calls.h"

#include <chrono>

#include "absl/strings/match.h"

namespace hmann::server {
namespace {

/// gRPC 1.51 says so of a name of more than 200 bytes, and of bytes that are no request.
constexpr char kUnread[] = "could not parse request";

class CountedHealthCall : public grpc::experimental::Interceptor {
 public:
  explicit CountedHealthCall(Metrics* metrics) : metrics_(*metrics) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      grpc::Status status = methods->GetSendStatus();
      // gRPC does not read a long name; no name that is served is that long.
      if (status.error_message() == kUnread) {
        status = grpc::Status(grpc::StatusCode::NOT_FOUND,
                              "no service has such a name: expected that of hmann.v1.Search, "
                              "hmann.index.NAME, or none");
        methods->ModifySendStatus(status);
      }
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
