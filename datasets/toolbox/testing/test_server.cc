#include "datasets/toolbox/testing/test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "index/base/check.h"

namespace hmann {
namespace {

constexpr std::size_t kBlockBytes = 16384;

bool SendAll(int connection, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(connection, data, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

std::string HeaderOf(const std::vector<std::string>& lines, const std::string& name) {
  for (const std::string& line : lines) {
    if (line.size() > name.size() && std::equal(name.begin(), name.end(), line.begin(),
                                                [](char a, char b) { return a == (b | 0x20); })) {
      return line.substr(name.size() + 2);
    }
  }
  return "";
}

}  // namespace

TestServer::TestServer() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  HMANN_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
              ::listen(listener_, 16) == 0);
  HMANN_CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Serve(); });
}

TestServer::~TestServer() {
  stop_ = true;
  thread_.join();
  ::close(listener_);
}

std::string TestServer::url() const { return absl::StrCat("http://127.0.0.1:", port_); }

void TestServer::Put(const std::string& path, File file) {
  const std::lock_guard lock(mutex_);
  files_[path] = std::move(file);
}

std::vector<TestServer::Request> TestServer::requests() {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void TestServer::Serve() {
  while (!stop_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (::poll(&waiting, 1, 20) <= 0) continue;
    const int connection = ::accept(listener_, nullptr, nullptr);
    if (connection < 0) continue;
    Answer(connection);
    ::close(connection);
  }
}

bool TestServer::ReadRequest(int connection, Request* request) {
  std::string text;
  char block[4096];
  while (text.find("\r\n\r\n") == std::string::npos) {
    const ssize_t bytes = ::recv(connection, block, sizeof(block), 0);
    if (bytes <= 0) return false;
    text.append(block, static_cast<std::size_t>(bytes));
  }
  const std::vector<std::string> lines = absl::StrSplit(text, "\r\n");
  const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
  *request = {.path = words[1],
              .range = HeaderOf(lines, "range"),
              .if_range = HeaderOf(lines, "if-range"),
              .sent = 0};
  return true;
}

TestServer::Response TestServer::Respond(const Request& request) {
  const auto empty = [](const std::string& head) {
    return Response{.head = absl::StrCat("HTTP/1.1 ", head, "Content-Length: 0\r\n\r\n")};
  };
  const auto found = files_.find(request.path);
  if (found == files_.end()) return empty("404 Not Found\r\n");
  File& file = found->second;
  if (file.unavailable > 0) {
    --file.unavailable;
    return empty("503 Service Unavailable\r\n");
  }
  if (!file.redirect.empty())
    return empty(absl::StrCat("302 Found\r\nLocation: ", file.redirect, "\r\n"));

  const std::uint64_t total = file.total_bytes != 0 ? file.total_bytes : file.content.size();
  std::uint64_t first = 0, last = total - 1;
  const bool partial = file.ranges && request.range.starts_with("bytes=") &&
                       (request.if_range.empty() || request.if_range == file.etag);
  if (partial) {
    const std::pair<std::string, std::string> ends =
        absl::StrSplit(request.range.substr(6), absl::MaxSplits('-', 1));
    HMANN_CHECK(absl::SimpleAtoi(ends.first, &first));
    if (!ends.second.empty()) HMANN_CHECK(absl::SimpleAtoi(ends.second, &last));
    last = std::min(last, total - 1);
    if (first >= total)
      return empty(
          absl::StrCat("416 Range Not Satisfiable\r\nContent-Range: bytes */", total, "\r\n"));
  }
  Response response{.first = first, .bytes = last - first + 1, .content = file.content};
  response.head = absl::StrCat(partial ? "HTTP/1.1 206 Partial Content\r\n" : "HTTP/1.1 200 OK\r\n",
                               "Content-Length: ", response.bytes, "\r\n");
  if (partial)
    absl::StrAppend(&response.head, "Content-Range: bytes ", first, "-", last, "/", total, "\r\n");
  if (!file.etag.empty()) absl::StrAppend(&response.head, "ETag: ", file.etag, "\r\n");
  response.head += "\r\n";
  if (file.cuts > 0) {
    --file.cuts;
    response.bytes = std::min(response.bytes, file.cut_after);
  }
  return response;
}

void TestServer::Answer(int connection) {
  Request request;
  if (!ReadRequest(connection, &request)) return;
  std::unique_lock lock(mutex_);
  const std::size_t index = requests_.size();
  requests_.push_back(request);
  const Response response = Respond(request);
  lock.unlock();
  if (!SendAll(connection, response.head.data(), response.head.size())) return;
  for (std::uint64_t sent = 0; sent < response.bytes && !stop_;) {
    std::string body(std::min<std::uint64_t>(kBlockBytes, response.bytes - sent), '\0');
    const std::uint64_t from = response.first + sent;
    if (from < response.content.size()) response.content.copy(body.data(), body.size(), from);
    if (!SendAll(connection, body.data(), body.size())) return;
    sent += body.size();
    const std::lock_guard count(mutex_);
    requests_[index].sent = sent;
  }
}

}  // namespace hmann
