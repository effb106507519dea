/// The errors that a client meets, as absl::Status. What it may act on, beside code and
/// message, lies in payloads, a text each, which a face says in the words of its
/// protocol.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hmann::server {

/// Kinds of payloads.
inline constexpr absl::string_view kReason = "reason";       ///< "QUEUE_FULL"
inline constexpr absl::string_view kMetadata = "metadata/";  ///< and a key: of the reason
inline constexpr absl::string_view kRetryNs = "retry_ns";    ///< worth a retry after so long
inline constexpr absl::string_view kField = "field";  ///< that is bad; the message begins with it
inline constexpr absl::string_view kResource = "resource/";  ///< and a type: a name not found

/// A message that names the file at `path`, without the folder: where a server keeps its
/// files is not for clients.
std::string WithoutFolder(absl::string_view message, const std::string& path);

/// INVALID_ARGUMENT: `field` is the path in the request, e.g. "options.k".
absl::Status BadField(absl::string_view field, absl::string_view description);
/// UNAUTHENTICATED, TOKEN_MISSING or TOKEN_UNKNOWN.
absl::Status NotAuthenticated(bool has_token);
/// PERMISSION_DENIED, ROLE_TOO_LOW.
absl::Status NotPermitted(absl::string_view needed);
/// NOT_FOUND, resource of type "index"; of a long name the beginning.
absl::Status UnknownIndex(absl::string_view name);
/// What the engine says of a label that no vector has, as NOT_FOUND, resource of type
/// "label".
absl::Status UnknownLabel(const absl::Status& why);
/// FAILED_PRECONDITION, NO_LABEL_ORDER: the index was made before there were any.
absl::Status NoLabelOrder(const absl::Status& why);
/// UNAVAILABLE, INDEX_LOADING, worth a retry.
absl::Status IndexLoading(absl::string_view name);
/// UNAVAILABLE, SERVER_STOPPING: another server may answer, this one will not.
absl::Status ServerStopping();
/// FAILED_PRECONDITION, INDEX_FAILED; the message says why it could not be
/// loaded.
absl::Status IndexFailed(absl::string_view name, const absl::Status& why);
/// The same: what was found is not to be relied on.
absl::Status FileChanged(absl::string_view name);
/// FAILED_PRECONDITION, NOT_TUNED: a target was asked of an index that has no
/// tuned table for it, or a stale one.
absl::Status NotTuned(const absl::Status& why);
/// RESOURCE_EXHAUSTED, QUEUE_FULL: worth a retry after `delay`,
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
/// RESOURCE_EXHAUSTED, WORK_TOO_LARGE: not worth a retry.
absl::Status WorkTooLarge(std::chrono::nanoseconds work, std::chrono::nanoseconds most);
/// INVALID_ARGUMENT of a field, REPLY_TOO_LARGE. `instead`: what to do.
absl::Status ReplyTooLarge(absl::string_view field, std::uint64_t bytes, std::uint64_t most,
                           absl::string_view instead);

/// Its reason, as "QUEUE_FULL"; empty when it has none.
std::string ReasonOf(const absl::Status& status);

}  // namespace hmann::server
