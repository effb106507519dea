#include "server/calls/grpc_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "index/base/json_reader.h"
#include "server/core/errors.h"

namespace hmann::server {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::ErrorInfo info;
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(status.code()));
  const std::string message = Utf8(status.message());
  wire.set_message(message);
  status.ForEachPayload([&](absl::string_view kind, const absl::Cord& payload) {
    const std::string text(payload);
    std::int64_t retry_ns = 0;
    if (kind == kReason) {
      info.set_reason(text);
    } else if (absl::ConsumePrefix(&kind, kMetadata)) {
      (*info.mutable_metadata())[std::string(kind)] = text;
    } else if (kind == kRetryNs && absl::SimpleAtoi(text, &retry_ns)) {
      google::rpc::RetryInfo retry;
      retry.mutable_retry_delay()->set_seconds(retry_ns / 1000000000);
      retry.mutable_retry_delay()->set_nanos(static_cast<std::int32_t>(retry_ns % 1000000000));
      wire.add_details()->PackFrom(retry);
    } else if (kind == kField) {
      google::rpc::BadRequest bad;
      auto* violation = bad.add_field_violations();
      violation->set_field(text);
      violation->set_description(std::string(absl::StripPrefix(message, absl::StrCat(text, ": "))));
      wire.add_details()->PackFrom(bad);
    } else if (absl::ConsumePrefix(&kind, kResource)) {
      google::rpc::ResourceInfo resource;
      resource.set_resource_type(std::string(kind));
      resource.set_resource_name(text);
      wire.add_details()->PackFrom(resource);
    }
  });
  if (!info.reason().empty()) {
    info.set_domain("hmann");
    wire.add_details()->PackFrom(info);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      wire.details().empty() ? std::string() : wire.SerializeAsString());
}

grpc::Status EndOf(const absl::Status& status, grpc::CallbackServerContext* context) {
  std::int64_t ns = 0;
  const auto delay = status.GetPayload(kRetryNs);
  if (delay.has_value() && absl::SimpleAtoi(std::string(*delay), &ns)) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat((ns + 999999) / 1000000));
  } else if (absl::IsResourceExhausted(status)) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", "-1");
  }
  return ToGrpc(status);
}

std::chrono::system_clock::time_point CallDeadline(const grpc::CallbackServerContext& context) {
  constexpr auto kFarthest = std::chrono::hours(24 * 365);
  const gpr_timespec deadline = context.raw_deadline();
  const auto farthest = std::chrono::system_clock::now() + kFarthest;
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0)
    return std::chrono::system_clock::time_point::max();
  if (deadline.tv_sec >= std::chrono::system_clock::to_time_t(farthest)) return farthest;
  return context.deadline();
}

grpc::ServerUnaryReactor* Reply(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(EndOf(status, context));
  return reactor;
}

}  // namespace hmann::server
