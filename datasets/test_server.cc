#include "datasets/test_server.h"

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
    if (line.size() > name.size() && std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) { return a == (b | 0x20); })) {
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
  HMANN_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(listener_, 16) == 0);
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

void TestServer::Answer(int connection) {
  std::string text;
  char block[4096];
  while (text.find("\r\n\r\n") == std::string::npos) {
    const ssize_t bytes = ::recv(connection, block, sizeof(block), 0);
    if (bytes <= 0) return;
    text.append(block, static_cast<std::size_t>(bytes));
  }
  const std::vector<std::string> lines = absl::StrSplit(text, "\r\n");
  const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
  Request request{.path = words[1], .range = HeaderOf(lines, "range"), .if_range = HeaderOf(lines, "if-range"), .sent = 0};
  std::unique_lock lock(mutex_);
  const auto found = files_.find(request.path);
  const std::size_t index = requests_.size();
  requests_.push_back(request);
  std::string head = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
  if (found != files_.end() && found->second.unavailable > 0) {
    --found->second.unavailable;
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
  } else if (found != files_.end() && !found->second.redirect.empty()) {
    head = absl::StrCat("HTTP/1.1 302 Found\r\nLocation: ", found->second.redirect, "\r\nContent-Length: 0\r\n\r\n");
  } else if (found != files_.end()) {
    File& file = found->second;
    const std::uint64_t total = file.total_bytes != 0 ? file.total_bytes : file.content.size();
    std::uint64_t first = 0, last = total - 1;
    bool partial = file.ranges && request.range.starts_with("bytes=") && (request.if_range.empty() || request.if_range == file.etag);
    if (partial) {
      const std::pair<std::string, std::string> ends = absl::StrSplit(request.range.substr(6), absl::MaxSplits('-', 1));
      HMANN_CHECK(absl::SimpleAtoi(ends.first, &first));
      if (!ends.second.empty()) HMANN_CHECK(absl::SimpleAtoi(ends.second, &last));
      last = std::min(last, total - 1);
    }
    if (partial && first >= total) {
      head = absl::StrCat("HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */", total, "\r\nContent-Length: 0\r\n\r\n");
      lock.unlock();
      SendAll(connection, head.data(), head.size());
      return;
    }
    head = absl::StrCat(partial ? "HTTP/1.1 206 Partial Content\r\n" : "HTTP/1.1 200 OK\r\n", "Content-Length: ", last - first + 1, "\r\n");
    if (partial) absl::StrAppend(&head, "Content-Range: bytes ", first, "-", last, "/", total, "\r\n");
    if (!file.etag.empty()) absl::StrAppend(&head, "ETag: ", file.etag, "\r\n");
    std::uint64_t most = last - first + 1;
    if (file.cut_after > 0 && file.cuts > 0) {
      --file.cuts;
      most = std::min(most, file.cut_after);
    }
    const std::string content = file.content;
    lock.unlock();
    head += "\r\n";
    if (!SendAll(connection, head.data(), head.size())) return;
    for (std::uint64_t sent = 0; sent < most && !stop_;) {
      std::string body(std::min<std::uint64_t>(kBlockBytes, most - sent), '\0');
      if (first + sent < content.size()) content.copy(body.data(), body.size(), first + sent);
      if (!SendAll(connection, body.data(), body.size())) return;
      sent += body.size();
      const std::lock_guard count(mutex_);
      requests_[index].sent = sent;
    }
    return;
  }
  lock.unlock();
  SendAll(connection, head.data(), head.size());
}

}  // namespace hmann
