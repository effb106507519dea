/// The errors that a client meets, as absl::Status with google.rpc details in its
/// payloads (type URL -> serialised message).
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"

namespace hmann {

/// A message that names the file at `path`, without the folder: where a server keeps its
/// files is not for clients.
std::string WithoutFolder(absl::string_view message, const std::string& path);

/// INVALID_ARGUMENT, BadRequest: `field` is the path in the request, e.g. "options.k".
absl::Status BadField(absl::string_view field, absl::string_view description);
/// UNAUTHENTICATED, ErrorInfo TOKEN_MISSING or TOKEN_UNKNOWN.
absl::Status NotAuthenticated(bool has_token);
/// PERMISSION_DENIED, ErrorInfo ROLE_TOO_LOW.
absl::Status NotPermitted(absl::string_view needed);
/// NOT_FOUND, ResourceInfo of type "index"; of a long name the beginning.
absl::Status UnknownIndex(absl::string_view name);
/// What the engine says of a label that no vector has, as NOT_FOUND with ResourceInfo of
/// type "label".
absl::Status UnknownLabel(const absl::Status& why);
/// FAILED_PRECONDITION, ErrorInfo NO_LABEL_ORDER: the index was made before there were
/// any.
absl::Status NoLabelOrder(const absl::Status& why);
/// UNAVAILABLE, ErrorInfo INDEX_LOADING, RetryInfo.
absl::Status IndexLoading(absl::string_view name);
/// UNAVAILABLE, ErrorInfo SERVER_STOPPING: another server may answer, this one will not.
absl::Status ServerStopping();
/// FAILED_PRECONDITION, ErrorInfo INDEX_FAILED; the message says why it could not be
/// loaded.
absl::Status IndexFailed(absl::string_view name, const absl::Status& why);
/// The same: what was found is not to be relied on.
absl::Status FileChanged(absl::string_view name);
/// FAILED_PRECONDITION, ErrorInfo NOT_TUNED: a target was asked of an index that has no
/// tuned table for it, or a stale one.
absl::Status NotTuned(const absl::Status& why);
/// RESOURCE_EXHAUSTED, ErrorInfo QUEUE_FULL, RetryInfo: worth a retry after `delay`,
/// unlike a message over the limit.
absl::Status QueueFull(std::size_t capacity, std::chrono::nanoseconds delay);
/// The same with MEMORY_FULL: the requests under way and their replies take all that they
/// may.
absl::Status MemoryFull(std::uint64_t most_bytes, std::chrono::nanoseconds delay);
/// The same with NO_TIME: with what was taken before it, it would not be done by a
/// deadline. `work`: its own, of one thread. After `delay` it would.
absl::Status NoTime(std::chrono::nanoseconds work, std::chrono::nanoseconds delay);
/// The same with OVER_SHARE: it was taken, and gave way to a caller who has less waiting.
absl::Status OverShare(std::chrono::nanoseconds delay);
/// RESOURCE_EXHAUSTED, ErrorInfo WORK_TOO_LARGE: not worth a retry.
absl::Status WorkTooLarge(std::chrono::nanoseconds work, std::chrono::nanoseconds most);
/// INVALID_ARGUMENT, BadRequest and ErrorInfo REPLY_TOO_LARGE. `instead`: what to do.
absl::Status ReplyTooLarge(absl::string_view field, std::uint64_t bytes, std::uint64_t most,
                           absl::string_view instead);

/// The reason of its ErrorInfo, as "QUEUE_FULL"; empty when it has none.
std::string ReasonOf(const absl::Status& status);

/// Ends a call at once.
grpc::ServerUnaryReactor* Reply(grpc::CallbackServerContext* context, const absl::Status& status);

/// Code, message and payloads, the latter as a google.rpc.Status in
/// grpc-status-details-bin.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace hmann
