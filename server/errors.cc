#include "server/errors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr char kDomain[] = "hmann";

template <typename Detail>
void Attach(const Detail& detail, absl::Status* status) {
  status->SetPayload(absl::StrCat("type.googleapis.com/", detail.GetDescriptor()->full_name()),
                     absl::Cord(detail.SerializeAsString()));
}

void AttachReason(absl::string_view reason,
                  std::initializer_list<std::pair<const char*, std::string>> metadata,
                  absl::Status* status) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(kDomain);
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
  Attach(info, status);
}

void AttachRetry(std::chrono::nanoseconds delay, absl::Status* status) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(delay.count() / 1000000000);
  retry.mutable_retry_delay()->set_nanos(static_cast<std::int32_t>(delay.count() % 1000000000));
  Attach(retry, status);
}

/// Of a name that a client sent: how much is sent back.
constexpr std::size_t kMostName = 64;

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::string ReasonOf(const absl::Status& status) {
  google::rpc::ErrorInfo info;
  const auto payload = status.GetPayload(
      absl::StrCat("type.googleapis.com/", google::rpc::ErrorInfo::descriptor()->full_name()));
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return "";
  return info.reason();
}

std::string WithoutFolder(absl::string_view message, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return std::string(message);
  return absl::StrReplaceAll(message, {{path.substr(0, slash + 1), ""}});
}

absl::Status BadField(absl::string_view field, absl::string_view description) {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(field, ": ", description));
  google::rpc::BadRequest detail;
  auto* violation = detail.add_field_violations();
  violation->set_field(std::string(field));
  violation->set_description(std::string(description));
  Attach(detail, &status);
  return status;
}

absl::Status NotAuthenticated(bool has_token) {
  absl::Status status = absl::UnauthenticatedError(
      has_token ? "the token is not known to this server"
                : "expected a token (metadata `authorization: Bearer TOKEN`), found none");
  AttachReason(has_token ? "TOKEN_UNKNOWN" : "TOKEN_MISSING", {}, &status);
  return status;
}

absl::Status NotPermitted(absl::string_view needed) {
  absl::Status status = absl::PermissionDeniedError(
      absl::StrCat("expected a token of role ", needed, ", found one of a lower role"));
  AttachReason("ROLE_TOO_LOW", {{"needed", std::string(needed)}}, &status);
  return status;
}

absl::Status UnknownIndex(absl::string_view asked) {
  // Whatever its length, it has to fit into a header.
  const std::string name =
      asked.size() <= kMostName
          ? std::string(asked)
          : absl::StrCat(asked.substr(0, kMostName), "... (", asked.size(), " bytes)");
  absl::Status status =
      absl::NotFoundError(absl::StrCat("index '", name, "': this server has none of that name"));
  google::rpc::ResourceInfo detail;
  detail.set_resource_type("index");
  detail.set_resource_name(std::string(name));
  Attach(detail, &status);
  return status;
}

absl::Status UnknownLabel(const absl::Status& why) {
  absl::Status status = absl::NotFoundError(why.message());
  google::rpc::ResourceInfo detail;
  detail.set_resource_type("label");
  // "label 7: no vector ..."
  const absl::string_view name = why.message().substr(0, why.message().find(':'));
  detail.set_resource_name(std::string(name.substr(name.find(' ') + 1)));
  Attach(detail, &status);
  return status;
}

absl::Status NoLabelOrder(const absl::Status& why) {
  absl::Status status = absl::FailedPreconditionError(why.message());
  AttachReason("NO_LABEL_ORDER", {}, &status);
  return status;
}

absl::Status IndexLoading(absl::string_view name) {
  absl::Status status = absl::UnavailableError(absl::StrCat("index '", name, "' is loading"));
  AttachReason("INDEX_LOADING", {{"index", std::string(name)}}, &status);
  AttachRetry(std::chrono::milliseconds(200), &status);
  return status;
}

absl::Status ServerStopping() {
  absl::Status status = absl::UnavailableError("the server is stopping");
  AttachReason("SERVER_STOPPING", {}, &status);
  return status;
}

absl::Status IndexFailed(absl::string_view name, const absl::Status& why) {
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("index '", name, "' is not served: ", why.message()));
  AttachReason("INDEX_FAILED",
               {{"index", std::string(name)}, {"code", absl::StatusCodeToString(why.code())}},
               &status);
  return status;
}

absl::Status FileChanged(absl::string_view name) {
  return IndexFailed(name, absl::FailedPreconditionError("its file changed while it was served"));
}

absl::Status NotTuned(const absl::Status& why) {
  absl::Status status = absl::FailedPreconditionError(why.message());
  AttachReason("NOT_TUNED", {{"code", absl::StatusCodeToString(why.code())}}, &status);
  return status;
}

absl::Status QueueFull(std::size_t capacity, std::chrono::nanoseconds delay) {
  absl::Status status =
      absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", capacity, " requests wait"));
  AttachReason("QUEUE_FULL", {{"queue_requests", absl::StrCat(capacity)}}, &status);
  AttachRetry(delay, &status);
  return status;
}

absl::Status MemoryFull(std::uint64_t most_bytes, std::chrono::nanoseconds delay) {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
      "the requests under way and their replies take most of the ", most_bytes, " bytes allowed"));
  AttachReason("MEMORY_FULL", {{"max_bytes", absl::StrCat(most_bytes)}}, &status);
  AttachRetry(delay, &status);
  return status;
}

absl::Status NoTime(std::chrono::nanoseconds work, std::chrono::nanoseconds delay) {
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("it would not be answered in time: it takes a thread about ",
                   FormatDuration(Seconds(work)), ", and other requests come first"));
  AttachReason("NO_TIME", {{"work_us", absl::StrCat(work.count() / 1000)}}, &status);
  AttachRetry(delay, &status);
  return status;
}

absl::Status OverShare(std::chrono::nanoseconds delay) {
  absl::Status status = absl::ResourceExhaustedError(
      "not all that waits can be answered in time, and of yours more waits than of others");
  AttachReason("OVER_SHARE", {}, &status);
  AttachRetry(delay, &status);
  return status;
}

absl::Status WorkTooLarge(std::chrono::nanoseconds work, std::chrono::nanoseconds most) {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
      "it would take a thread about ", FormatDuration(Seconds(work)), ", and at most ",
      FormatDuration(Seconds(most)), " are allowed: send fewer queries at once or ask for less"));
  AttachReason("WORK_TOO_LARGE",
               {{"work_us", absl::StrCat(work.count() / 1000)},
                {"max_work_us", absl::StrCat(most.count() / 1000)}},
               &status);
  return status;
}

absl::Status ReplyTooLarge(absl::string_view field, std::uint64_t bytes, std::uint64_t most,
                           absl::string_view instead) {
  absl::Status status =
      BadField(field, absl::StrCat("the answers would take ", bytes, " bytes, expected at most ",
                                   most, ": ", instead));
  AttachReason("REPLY_TOO_LARGE",
               {{"reply_bytes", absl::StrCat(bytes)}, {"max_reply_bytes", absl::StrCat(most)}},
               &status);
  return status;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(status.code()));
  wire.set_message(std::string(status.message()));
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    auto* detail = wire.add_details();
    detail->set_type_url(std::string(type_url));
    detail->set_value(std::string(payload));
  });
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()),
                      wire.details().empty() ? std::string() : wire.SerializeAsString());
}

grpc::ServerUnaryReactor* Reply(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace hmann
