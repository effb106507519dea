#include "server/core/errors.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "index/base/errors.h"
#include "index/base/units.h"

namespace hmann::server {
namespace {

using Metadata = std::initializer_list<std::pair<const char*, std::string>>;

/// Adds to `status` its reason and, if a retry may succeed, the delay.
absl::Status WithReason(absl::Status status, absl::string_view reason, Metadata metadata = {},
                        std::chrono::nanoseconds retry_after = {}) {
  status.SetPayload(kReason, absl::Cord(reason));
  for (const auto& [key, value] : metadata)
    status.SetPayload(absl::StrCat(kMetadata, key), absl::Cord(value));
  if (retry_after.count() > 0)
    status.SetPayload(kRetryNs, absl::Cord(absl::StrCat(retry_after.count())));
  return status;
}

absl::Status WithResource(absl::Status status, const char* type, absl::string_view name) {
  status.SetPayload(absl::StrCat(kResource, type), absl::Cord(name));
  return status;
}

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::string ReasonOf(const absl::Status& status) {
  return std::string(status.GetPayload(kReason).value_or(absl::Cord()));
}

std::string Echo(absl::string_view text, std::size_t most) {
  std::size_t end = std::min(text.size(), most);
  const auto continues = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  while (end > 0 && continues(end)) --end;
  std::string echo(text.substr(0, end));
  for (char& c : echo) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  if (end < text.size()) absl::StrAppend(&echo, "... (", text.size(), " bytes)");
  return echo;
}

std::string WithoutFolder(absl::string_view message, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return std::string(message);
  return absl::StrReplaceAll(message, {{path.substr(0, slash + 1), ""}});
}

absl::Status WithoutFolder(const absl::Status& status, const std::string& path) {
  absl::Status reported(status.code(), WithoutFolder(status.message(), path));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    reported.SetPayload(type, payload);
  });
  return reported;
}

absl::Status BadField(absl::string_view field, absl::string_view description) {
  absl::Status status = InvalidArgument(field, ": ", description);
  status.SetPayload(kField, absl::Cord(field));
  return status;
}

absl::Status NotAuthenticated(Token token) {
  constexpr const char* kWhy[] = {
      "expected a token (metadata `authorization: Bearer TOKEN`), found none",
      "the token is not known to this server (its SHA-256 is in no line of --tokens)",
      "the token has expired (its lines of --tokens say until when it holds)"};
  constexpr const char* kReasons[] = {"TOKEN_MISSING", "TOKEN_UNKNOWN", "TOKEN_EXPIRED"};
  const auto at = static_cast<std::size_t>(token);
  return WithReason(absl::UnauthenticatedError(kWhy[at]), kReasons[at]);
}

absl::Status NotPermitted(absl::string_view needed) {
  return WithReason(absl::PermissionDeniedError(absl::StrCat("expected a token of role ", needed,
                                                             ", found one that allows less")),
                    "ROLE_TOO_LOW", {{"needed", std::string(needed)}});
}

absl::Status NotForIndex(absl::string_view requested) {
  const std::string name = Echo(requested);
  return WithReason(
      absl::PermissionDeniedError(absl::StrCat(
          "index '", name, "': the token is not for this name, whether or not the server has it")),
      "INDEX_NOT_PERMITTED", {{"index", name}});
}

absl::Status PathNotPermitted(absl::string_view index) {
  const std::string name = Echo(index);
  return WithReason(
      absl::PermissionDeniedError(absl::StrCat(
          "index '", name, "': a token of some indexes names only files in the folder that the ",
          "configuration has for this one, or below, whether or not there are others")),
      "PATH_NOT_PERMITTED", {{"index", name}});
}

absl::Status UnknownIndex(absl::string_view requested, absl::string_view known) {
  const std::string name = Echo(requested);
  return WithResource(NotFound("index '", name, "': this server has none of that name",
                               known.empty() ? "" : "; it has: ", Echo(known)),
                      "index", name);
}

absl::Status HeadersTooLarge(std::size_t bytes, std::size_t most) {
  return WithReason(ResourceExhausted("the metadata of the call takes ", bytes,
                                      " bytes, expected at most ", most),
                    "METADATA_TOO_LARGE", {{"max_metadata_bytes", absl::StrCat(most)}});
}

absl::Status RequestTooLarge(std::uint64_t bytes) {
  return WithReason(ResourceExhausted("the request has more than ", bytes,
                                      " bytes, which is more than any can have: send fewer "
                                      "queries or labels at once"),
                    "REQUEST_TOO_LARGE");
}

absl::Status UnknownLabel(const absl::Status& why) {
  // "label 7: no vector ..."
  const absl::string_view name = why.message().substr(0, why.message().find(':'));
  return WithResource({why.code(), why.message()}, "label", name.substr(name.find(' ') + 1));
}

absl::Status OfLabel(const absl::Status& why, absl::string_view label) {
  return WithResource(why, "label", label);
}

absl::Status OfOperation(const absl::Status& why, absl::string_view operation) {
  return WithResource(why, "operation", absl::BytesToHexString(operation));
}

absl::Status IndexLoading(absl::string_view name) {
  return WithReason(Unavailable("index '", name, "' is loading"), "INDEX_LOADING",
                    {{"index", std::string(name)}}, std::chrono::milliseconds(200));
}

absl::Status LoadAborted(absl::string_view name, bool removed) {
  return absl::AbortedError(absl::StrCat(
      "index '", name, "': ", removed ? "it was unloaded" : "another load of it runs"));
}

absl::Status ServerStopping() {
  return WithReason(Unavailable("the server is stopping"), "SERVER_STOPPING");
}

absl::Status IndexFailed(absl::string_view name, const absl::Status& why) {
  return WithReason(FailedPrecondition("index '", name, "' is not served: ", why.message()),
                    "INDEX_FAILED",
                    {{"index", std::string(name)}, {"code", absl::StatusCodeToString(why.code())}});
}

absl::Status FileChanged(absl::string_view name) {
  return IndexFailed(name, FailedPrecondition("its file changed while it was served"));
}

absl::Status NotTuned(const absl::Status& why) {
  return WithReason(FailedPrecondition(why.message()), "NOT_TUNED",
                    {{"code", absl::StatusCodeToString(why.code())}});
}

absl::Status NotACollection(absl::string_view name) {
  return WithReason(FailedPrecondition("index '", name,
                                       "' does not change: serve a collection, "
                                       "which hmann create --from FILE makes of it"),
                    "NOT_A_COLLECTION");
}

absl::Status OfWrite(const absl::Status& status, std::chrono::nanoseconds delay) {
  return absl::IsResourceExhausted(status) ? WithReason(status, "COLLECTION_FULL", {}, delay)
                                           : status;
}

absl::Status NoAttributes() {
  return WithReason(
      FailedPrecondition("options.filter: the index has no attributes: hmann attrs makes them"),
      "NO_ATTRIBUTES", {});
}

absl::Status QueueFull(std::size_t capacity, std::chrono::nanoseconds delay) {
  return WithReason(ResourceExhausted("the queue is full: ", capacity, " requests wait"),
                    "QUEUE_FULL", {{"queue_requests", absl::StrCat(capacity)}}, delay);
}

absl::Status MemoryFull(std::uint64_t most_bytes, std::chrono::nanoseconds delay) {
  return WithReason(
      ResourceExhausted("the requests in progress and their replies take most of the ", most_bytes,
                        " bytes allowed"),
      "MEMORY_FULL", {{"max_bytes", absl::StrCat(most_bytes)}}, delay);
}

absl::Status NoTime(std::chrono::nanoseconds work, std::chrono::nanoseconds delay) {
  return WithReason(
      ResourceExhausted("it would not be answered in time: it takes a thread about ",
                        FormatDuration(Seconds(work)), ", and other requests come first"),
      "NO_TIME", {{"work_us", absl::StrCat(work.count() / 1000)}}, delay);
}

absl::Status OverShare(std::chrono::nanoseconds delay) {
  return WithReason(
      ResourceExhausted(
          "not all that waits can be answered in time, and of yours more waits than of others"),
      "OVER_SHARE", {}, delay);
}

absl::Status WorkTooLarge(std::chrono::nanoseconds work, std::chrono::nanoseconds most) {
  return WithReason(
      ResourceExhausted("it would take a thread about ", FormatDuration(Seconds(work)),
                        ", and at most ", FormatDuration(Seconds(most)),
                        " are allowed: send fewer queries at once or ask for less"),
      "WORK_TOO_LARGE",
      {{"work_us", absl::StrCat(work.count() / 1000)},
       {"max_work_us", absl::StrCat(most.count() / 1000)}});
}

absl::Status ReplyTooLarge(absl::string_view field, std::uint64_t bytes, std::uint64_t most,
                           absl::string_view instead) {
  return WithReason(
      BadField(field, absl::StrCat("the answers would take ", bytes, " bytes, expected at most ",
                                   most, ": ", instead)),
      "REPLY_TOO_LARGE",
      {{"reply_bytes", absl::StrCat(bytes)}, {"max_reply_bytes", absl::StrCat(most)}});
}

}  // namespace hmann::server
