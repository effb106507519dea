#include "datasets/toolbox/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr long kConnectSeconds = 30;
constexpr long kStallSeconds = 60;
constexpr long kMostRedirects = 10;
constexpr int kMostPauseMs = 30'000;
constexpr std::uint64_t kMostValidatorBytes = 4096;

/// 0: unknown beforehand.
std::uint64_t BytesWanted(const DownloadRequest& request) {
  return request.wanted_bytes != 0 ? request.wanted_bytes : request.total_bytes;
}

/// A header of the last answer, after redirects; empty: there is none.
std::string HeaderOf(CURL* curl, const char* name) {
  curl_header* found = nullptr;
  return curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK ? found->value : "";
}

/// One request and its answer, as libcurl's callbacks see it.
struct Transfer {
  const DownloadRequest* request;
  Progress* progress;
  int fd = -1;
  CURL* curl = nullptr;
  std::uint64_t have = 0;      ///< bytes in the file
  std::uint64_t received = 0;  ///< bytes of this answer
  bool headers_checked = false;
  bool complete = false;    ///< all wanted bytes are there; the rest of the answer is refused
  absl::Status error = {};  ///< reason for refusing the answer

  absl::Status CheckHeaders();
  absl::Status Take(const char* data, std::size_t bytes);
};

absl::Status SizeError(const DownloadRequest& request, std::uint64_t found) {
  return FailedPrecondition(request.url, ": the server's file has ", found, " bytes, ",
                            request.total_bytes, " expected");
}

/// Decides, before accepting the first byte, where the answer's bytes belong.
absl::Status Transfer::CheckHeaders() {
  headers_checked = true;
  long code = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
  curl_off_t length = -1;
  curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (code == 206) {
    // "bytes 100-199/1000" or "bytes 100-199/*"
    const std::string content_range = HeaderOf(curl, "content-range");
    absl::string_view range = content_range;
    std::uint64_t first = 0, total = 0;
    const std::size_t dash = range.find('-'), slash = range.find('/');
    if (!absl::ConsumePrefix(&range, "bytes ") || dash == absl::string_view::npos ||
        slash == absl::string_view::npos ||
        !absl::SimpleAtoi(absl::string_view(content_range).substr(6, dash - 6), &first) ||
        first != have) {
      return Unavailable(request->url, ": Content-Range \"", content_range, "\" found, bytes from ",
                         have, " expected");
    }
    if (absl::SimpleAtoi(absl::string_view(content_range).substr(slash + 1), &total) &&
        request->total_bytes != 0 && total != request->total_bytes) {
      return SizeError(*request, total);
    }
    return absl::OkStatus();
  }
  const bool http = absl::StartsWithIgnoreCase(request->url, "http");
  if (http && have > 0) {  // sends the whole file: it has changed, or the server has no ranges
    if (::ftruncate(fd, 0) != 0) return ErrnoError(errno, "truncate", request->path);
    have = 0;
  }
  if (http && length >= 0 && request->total_bytes != 0 &&
      static_cast<std::uint64_t>(length) != request->total_bytes) {
    return SizeError(*request, static_cast<std::uint64_t>(length));
  }
  return absl::OkStatus();
}

absl::Status Transfer::Take(const char* data, std::size_t bytes) {
  if (!headers_checked) HMANN_RETURN_IF_ERROR(CheckHeaders());
  received += bytes;
  const std::uint64_t most = BytesWanted(*request);
  if (most != 0 && have + bytes > most) {
    if (request->wanted_bytes == 0) return SizeError(*request, have + bytes);
    bytes = most - have;
  }
  while (bytes > 0) {
    const ssize_t written = ::pwrite(fd, data, bytes, static_cast<off_t>(have));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return ErrnoError(written < 0 ? errno : ENOSPC, "write", request->path);
    have += static_cast<std::uint64_t>(written);
    data += written;
    bytes -= static_cast<std::size_t>(written);
    progress->Advance(static_cast<std::uint64_t>(written));
  }
  complete = request->wanted_bytes != 0 && have == request->wanted_bytes;
  return absl::OkStatus();
}

std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* user) {
  auto* transfer = static_cast<Transfer*>(user);
  transfer->error = transfer->Take(data, size * count);
  return transfer->error.ok() && !transfer->complete ? size * count : CURL_WRITEFUNC_ERROR;
}

/// The validator that ties later bytes to the same file; empty: there is none.
std::string ValidatorOf(CURL* curl) {
  const std::string etag = HeaderOf(curl, "etag");
  return etag.empty() || absl::StartsWith(etag, "W/") ? HeaderOf(curl, "last-modified") : etag;
}

absl::Status CurlError(const DownloadRequest& request, CURLcode code, const char* detail) {
  const std::string message =
      absl::StrCat(request.url, ": ", detail[0] != '\0' ? detail : curl_easy_strerror(code));
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
    return InvalidArgument(message);
  if (code == CURLE_REMOTE_FILE_NOT_FOUND) return NotFound(message);
  if (code == CURLE_LOGIN_DENIED || code == CURLE_REMOTE_ACCESS_DENIED)
    return absl::PermissionDeniedError(message);
  return Unavailable(message);
}

absl::Status HttpError(const DownloadRequest& request, long code) {
  const std::string message = absl::StrCat(request.url, ": HTTP status ", code);
  if (code == 404 || code == 410) return NotFound(message);
  if (code == 401 || code == 403) return absl::PermissionDeniedError(message);
  if (code == 408 || code == 429 || code >= 500) return Unavailable(message);
  return FailedPrecondition(message);
}

using CurlHandle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using CurlList = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

/// Reads what the server said of the bytes in `path` when they came.
std::string ReadValidator(const std::string& path) {
  const auto text = ReadTextFile(path + ".from", kMostValidatorBytes);
  return text.ok() ? *text : std::string();
}

/// Makes one request for the bytes from transfer->have on.
absl::Status Attempt(const DownloadRequest& request, Transfer* transfer) {
  const CurlHandle curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) return ResourceExhausted("libcurl cannot be started");
  char detail[CURL_ERROR_SIZE] = "";
  const std::string validator = transfer->have > 0 ? ReadValidator(request.path) : "";
  const bool http = absl::StartsWithIgnoreCase(request.url, "http");
  if (http && transfer->have > 0 &&
      validator.empty()) {  // nothing proves that the rest belongs to these bytes
    if (::ftruncate(transfer->fd, 0) != 0) return ErrnoError(errno, "truncate", request.path);
    transfer->have = 0;
  }
  CurlList headers(nullptr, curl_slist_free_all);
  if (!validator.empty())
    headers.reset(curl_slist_append(nullptr, absl::StrCat("If-Range: ", validator).c_str()));
  std::string range;
  if (transfer->have > 0 || request.wanted_bytes != 0) {
    range = absl::StrCat(transfer->have, "-");
    if (request.wanted_bytes != 0) absl::StrAppend(&range, request.wanted_bytes - 1);
  }
  transfer->curl = curl.get();
  curl_easy_setopt(curl.get(), CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https,ftp");
  curl_easy_setopt(curl.get(), CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, kMostRedirects);
  curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, "hmann");
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  if (!range.empty()) curl_easy_setopt(curl.get(), CURLOPT_RANGE, range.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, transfer);
  const CURLcode code = curl_easy_perform(curl.get());
  long http_code = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &http_code);
  if (!transfer->error.ok()) return transfer->error;
  // The received bytes, even if they are all, belong to the file that the server named.
  if (const std::string came = ValidatorOf(curl.get());
      http && transfer->received > 0 && came != validator) {
    HMANN_RETURN_IF_ERROR(WriteTextFile(request.path + ".from", came));
  }
  if (transfer->complete) return absl::OkStatus();
  if (http_code == 416 && transfer->have > 0 &&
      HeaderOf(curl.get(), "content-range") == absl::StrCat("bytes */", transfer->have)) {
    // There is no more: an earlier attempt had everything but ended before it saw that.
    return absl::OkStatus();
  }
  if (code == CURLE_HTTP_RETURNED_ERROR) return HttpError(request, http_code);
  if (code != CURLE_OK) return CurlError(request, code, detail);
  return absl::OkStatus();
}

/// Returns an error unless the file holds the requested bytes. UNAVAILABLE for too few
/// bytes of a known number: the connection was cut.
absl::Status CheckLength(const DownloadRequest& request, std::uint64_t have) {
  const std::uint64_t wanted = BytesWanted(request);
  if (wanted == 0 ? have > 0 : have == wanted) return absl::OkStatus();
  return Unavailable(request.url, ": ", have, " bytes came, ", wanted, " expected");
}

}  // namespace

absl::Status Download(const DownloadRequest& request, Progress& progress) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  HMANN_ASSIGN_OR_RETURN(const FileDescriptor file,
                         FileDescriptor::Open(request.path, O_RDWR | O_CREAT, 0644));
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) return ErrnoError(errno, "stat", request.path);
  std::uint64_t have = static_cast<std::uint64_t>(status.st_size);
  const std::uint64_t wanted = BytesWanted(request);
  if (wanted != 0 && have > wanted) {
    if (::ftruncate(file.fd(), 0) != 0) return ErrnoError(errno, "truncate", request.path);
    have = 0;
  }
  progress.Start(absl::StrCat("fetch ", request.url.substr(request.url.rfind('/') + 1)),
                 wanted == 0 ? 0 : wanted - have, "B");
  absl::Status result = absl::OkStatus();
  int pause_ms = request.pause_ms;
  for (int attempt = 1; wanted == 0 || have < wanted; ++attempt) {
    Transfer transfer{.request = &request, .progress = &progress, .fd = file.fd(), .have = have};
    result = Attempt(request, &transfer);
    const bool advanced = transfer.have > have;
    have = transfer.have;
    if (result.ok()) result = CheckLength(request, have);
    if (!absl::IsUnavailable(result)) break;
    if (advanced) {
      attempt = 1;
      pause_ms = request.pause_ms;
    }
    if (attempt >= request.attempts) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    pause_ms = std::min(2 * pause_ms, kMostPauseMs);
  }
  progress.Finish();
  HMANN_RETURN_IF_ERROR(result);
  if (::fsync(file.fd()) != 0) return ErrnoError(errno, "fsync", request.path);
  return absl::OkStatus();
}

}  // namespace hmann
