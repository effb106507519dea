#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "hmann/progress.h"

namespace hmann {

struct DownloadRequest {
  std::string url;                 ///< http, https or ftp
  std::string path;                ///< target file; existing bytes are kept and appended to
  std::uint64_t total_bytes = 0;   ///< of the remote file; 0: unknown
  std::uint64_t wanted_bytes = 0;  ///< only this many first bytes; 0: all
  int attempts = 6;                ///< attempts in a row that bring no new byte
  int pause_ms = 1000;             ///< before the second attempt; doubles after that, up to 30 s
};

/// Downloads a file, or its first bytes by an HTTP range, to request.path. It keeps bytes
/// that exist and requests the rest, provided the server's ETag or date (remembered in
/// `<path>.from`) says that the file is the same. Otherwise it starts again. A server
/// without ranges sends everything from the start; reading stops when enough has come. A
/// cut connection is resumed.
///
/// Errors: NOT_FOUND (404), PERMISSION_DENIED (401, 403), UNAVAILABLE (connection, 5xx,
/// after the attempts), FAILED_PRECONDITION if the server's size is not total_bytes, with
/// both; RESOURCE_EXHAUSTED for a full disk; INVALID_ARGUMENT for a URL that libcurl
/// cannot read.
absl::Status Download(const DownloadRequest& request, Progress& progress);

}  // namespace hmann
