/// The errors that a client sees, as absl::Status. Payloads carry what the client may act
/// on in addition to code and message, one text each. The protocol layer (a "face")
/// translates them for its protocol.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hmann::server {

/// The payload types.
inline constexpr absl::string_view kReason = "reason";       ///< "QUEUE_FULL"
inline constexpr absl::string_view kMetadata = "metadata/";  ///< plus a key: details
inline constexpr absl::string_view kRetryNs = "retry_ns";    ///< retry after this long
inline constexpr absl::string_view kField = "field";         ///< starts the message
inline constexpr absl::string_view kResource = "resource/";  ///< plus a type: missing name

/// Removes the folder from a message that names the file at `path`: clients must not
/// learn where a server keeps its files.
std::string WithoutFolder(absl::string_view message, const std::string& path);
absl::Status WithoutFolder(const absl::Status& status, const std::string& path);

/// Bytes that a client sent, as a message, a detail or a log line may show them: at most
/// `most` bytes, cut between characters of UTF-8, without control characters.
std::string Echo(absl::string_view text, std::size_t most = 64);

/// INVALID_ARGUMENT: `field` is the path in the request, e.g. "options.k".
absl::Status BadField(absl::string_view field, absl::string_view description);
/// A fault of the token of a call.
enum class Token { kMissing, kUnknown, kExpired };
/// UNAUTHENTICATED, TOKEN_MISSING, TOKEN_UNKNOWN or TOKEN_EXPIRED.
absl::Status NotAuthenticated(Token token);
/// PERMISSION_DENIED, ROLE_TOO_LOW. `needed`: "admin".
absl::Status NotPermitted(absl::string_view needed);
/// PERMISSION_DENIED, INDEX_NOT_PERMITTED: the same for all names beyond the rights of a
/// token, so that it does not tell which of them exist.
absl::Status NotForIndex(absl::string_view requested);
/// PERMISSION_DENIED, PATH_NOT_PERMITTED: the same for all paths that an operator of some
/// indexes may not name, whether there is a file or not.
absl::Status PathNotPermitted(absl::string_view index);
/// NOT_FOUND, resource of type "index". A long name is cut to its beginning, as are the
/// `known` names, which follow it, if there are any.
absl::Status UnknownIndex(absl::string_view name, absl::string_view known);
/// RESOURCE_EXHAUSTED, METADATA_TOO_LARGE. A retry cannot succeed.
absl::Status HeadersTooLarge(std::size_t bytes, std::size_t most);
/// The engine's error for a label, which its message begins with, with a resource of type
/// "label".
absl::Status UnknownLabel(const absl::Status& why);
/// The engine's NOT_FOUND or ALREADY_EXISTS for a label of a write, with a resource of
/// type "label"; of its name, type "operation", in hexadecimal digits.
absl::Status OfLabel(const absl::Status& why, absl::string_view label);
absl::Status OfOperation(const absl::Status& why, absl::string_view operation);
/// UNAVAILABLE, INDEX_LOADING. A retry may succeed.
absl::Status IndexLoading(absl::string_view name);
/// ABORTED: the index is being loaded, or was removed while it was. A retry may succeed.
absl::Status LoadAborted(absl::string_view name, bool removed);
/// UNAVAILABLE, SERVER_STOPPING: another server may answer, but this one will not.
absl::Status ServerStopping();
/// FAILED_PRECONDITION, INDEX_FAILED. The message says why the index could not be loaded.
absl::Status IndexFailed(absl::string_view name, const absl::Status& why);
/// The same error for a file that changed while it was served: results from it are
/// unreliable.
absl::Status FileChanged(absl::string_view name);
/// FAILED_PRECONDITION, NOT_TUNED: the request sets a target, but the index has no tuned
/// table for it, or a stale one.
absl::Status NotTuned(const absl::Status& why);
/// FAILED_PRECONDITION, NO_ATTRIBUTES: the request has a filter, and the index nothing to
/// filter by.
absl::Status NoAttributes();
/// FAILED_PRECONDITION, NOT_A_COLLECTION: a write for an index, which does not change.
absl::Status NotACollection(absl::string_view name);
/// The engine's RESOURCE_EXHAUSTED for a write, as COLLECTION_FULL. A retry after `delay`
/// may succeed; 0: not soon. Other errors stay as they are.
absl::Status OfWrite(const absl::Status& status, std::chrono::nanoseconds delay);
/// RESOURCE_EXHAUSTED, QUEUE_FULL. A retry after `delay` may succeed, unlike for a
/// message over the size limit.
absl::Status QueueFull(std::size_t capacity, std::chrono::nanoseconds delay);
/// The same with MEMORY_FULL: the requests in flight and their replies use all the memory
/// allowed.
absl::Status MemoryFull(std::uint64_t most_bytes, std::chrono::nanoseconds delay);
/// The same with NO_TIME: behind the requests accepted before it, this one would miss a
/// deadline. After `delay` it would not. `work`: its own thread time.
absl::Status NoTime(std::chrono::nanoseconds work, std::chrono::nanoseconds delay);
/// The same with OVER_SHARE: the request was accepted, then gave way to a caller with
/// less waiting.
absl::Status OverShare(std::chrono::nanoseconds delay);
/// RESOURCE_EXHAUSTED, REQUEST_TOO_LARGE: more than `bytes`. A retry cannot succeed.
absl::Status RequestTooLarge(std::uint64_t bytes);
/// RESOURCE_EXHAUSTED, WORK_TOO_LARGE. A retry cannot succeed.
absl::Status WorkTooLarge(std::chrono::nanoseconds work, std::chrono::nanoseconds most);
/// INVALID_ARGUMENT of a field, REPLY_TOO_LARGE. `instead` tells the client what to do.
absl::Status ReplyTooLarge(absl::string_view field, std::uint64_t bytes, std::uint64_t most,
                           absl::string_view instead);

/// The reason of `status`, e.g. "QUEUE_FULL"; empty when it has none.
std::string ReasonOf(const absl::Status& status);

}  // namespace hmann::server
