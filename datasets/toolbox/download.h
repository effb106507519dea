#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "hmann/progress.h"

namespace hmann {

struct DownloadRequest {
  std::string url;                 ///< http, https or ftp
  std::string path;                ///< where the bytes go: appended to, if there are some already
  std::uint64_t total_bytes = 0;   ///< of the remote file; 0: not known beforehand
  std::uint64_t wanted_bytes = 0;  ///< its first bytes only; 0: all
  int attempts = 6;                ///< in a row without a new byte
  int pause_ms = 1000;  ///< before the second attempt; doubles with each that follows, up to 30 s
};

/// Downloads a file, or its first bytes by an HTTP range, to request.path. Bytes that are
/// there already are kept and the rest is asked for, as long as the server says by its
/// ETag or date (remembered in `<path>.from`) that the file is the same; otherwise it
/// starts again. A server that knows no ranges sends all from the start; reading stops
/// when enough has come. A cut connection is resumed.
///
/// Errors: NOT_FOUND (404), PERMISSION_DENIED (401, 403), UNAVAILABLE (connection, 5xx,
/// after the attempts), FAILED_PRECONDITION when the server's size is not total_bytes,
/// with both; RESOURCE_EXHAUSTED for a full disk; INVALID_ARGUMENT for a URL that libcurl
/// cannot read.
absl::Status Download(const DownloadRequest& request, Progress& progress);

}  // namespace hmann
