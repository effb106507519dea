#include "server/http_port.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <list>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/connections/listen_tcp.h"

namespace hmann::server {
namespace {

using HttpClock = std::chrono::steady_clock;

const char* HttpReason(int status) {
  static const std::map<int, const char*> kReasons = {{200, "OK"},
                                                      {400, "Bad Request"},
                                                      {404, "Not Found"},
                                                      {405, "Method Not Allowed"},
                                                      {431, "Request Header Fields Too Large"},
                                                      {500, "Internal Server Error"},
                                                      {503, "Service Unavailable"}};
  const auto found = kReasons.find(status);
  return found == kReasons.end() ? "Other" : found->second;
}

HttpPort::Reply HttpFailure(int status) { return {status, absl::StrCat(HttpReason(status), "\n")}; }

std::string HttpBytes(const HttpPort::Reply& reply, bool with_text) {
  return absl::StrCat("HTTP/1.1 ", reply.status, " ", HttpReason(reply.status),
                      "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8",
                      "\r\nContent-Length: ", reply.text.size(),
                      reply.status == 405 ? "\r\nAllow: GET, HEAD" : "",
                      "\r\nConnection: close\r\n\r\n", with_text ? reply.text : "");
}

/// Whether the head is complete: an empty line ends it.
bool HttpHeadEnds(std::string_view head) {
  return head.find("\n\r\n") != std::string_view::npos ||
         head.find("\n\n") != std::string_view::npos;
}

/// The method, the target and the version; nothing if the line does not have this form.
std::vector<std::string> HttpRequestLine(const std::string& head) {
  std::string line = head.substr(0, head.find('\n'));
  if (line.ends_with('\r')) line.pop_back();
  std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || words[0].empty() || words[1].empty() ||
      (words[2] != "HTTP/1.0" && words[2] != "HTTP/1.1")) {
    return {};
  }
  return words;
}

/// Whether a call that failed with this error can succeed later.
bool MayRetryHttp(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

struct HttpPort::Connection {
  enum class Phase { kReceive, kSend, kWaitForEnd };

  Connection(int fd, HttpClock::time_point until) : socket(fd), deadline(until) {}

  const FileDescriptor socket;
  HttpClock::time_point deadline;  ///< of this phase; the last one inherits that of kSend
  Phase phase = Phase::kReceive;
  std::string head, reply;
  std::size_t sent = 0;  ///< bytes of the reply
  bool settled = false;  ///< answered, or counted as refused
};

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Listen(const std::string& listen,
                                                           std::chrono::milliseconds deadline) {
  std::unique_ptr<HttpPort> http(new HttpPort(deadline));
  http->stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (http->stop_.fd() < 0) return absl::ErrnoToStatus(errno, "http: eventfd");
  if (const absl::Status status = ListenTcp(listen, &http->listeners_, &http->port_); !status.ok())
    return absl::Status(status.code(), absl::StrCat("--http ", listen, ": ", status.message()));
  return http;
}

HttpPort::~HttpPort() {
  if (thread_.joinable()) {
    eventfd_write(stop_.fd(), 1);
    thread_.join();
  }
}

void HttpPort::Add(const std::string& path, Page page) { pages_[path] = std::move(page); }

void HttpPort::Start() {
  thread_ = std::thread([this] { Run(); });
}

void HttpPort::Run() {
  constexpr std::chrono::milliseconds kPause(50);  // while descriptors or memory are short
  std::list<Connection> open;                      // in the order of their arrival
  std::vector<pollfd> polled;
  HttpClock::time_point accept_from;
  for (;;) {
    const HttpClock::time_point begun = HttpClock::now();
    const bool pauses = begun < accept_from;
    HttpClock::time_point wake = pauses ? accept_from : begun + std::chrono::hours(1);
    polled.assign(1, {stop_.fd(), POLLIN, 0});
    for (const FileDescriptor& listener : listeners_)
      polled.push_back({pauses ? -1 : listener.fd(), POLLIN, 0});
    for (const Connection& connection : open) {
      const bool sends = connection.phase == Connection::Phase::kSend;
      polled.push_back({connection.socket.fd(), static_cast<short>(sends ? POLLOUT : POLLIN), 0});
      wake = std::min(wake, connection.deadline);
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(wake - begun).count();
    poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(wait, 0)));
    if (polled.front().revents != 0) return;
    // The time before any page: a request that came in time and waited for the page of
    // another is not late.
    const HttpClock::time_point now = HttpClock::now();
    auto ready = polled.begin() + 1 + static_cast<std::ptrdiff_t>(listeners_.size());
    for (auto it = open.begin(); it != open.end(); ++ready) {
      const bool over = ready->revents != 0 && !Advance(*it);
      const bool late = !over && it->deadline <= now;
      if (late) Refuse(*it);
      it = over || late ? open.erase(it) : std::next(it);
    }
    // One at a time: the requests of the others are read in between.
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (polled[1 + i].revents == 0) continue;
      const int fd = accept4(listeners_[i].fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) {
        if (!MayRetryHttp(errno) && errno != ECONNABORTED) accept_from = now + kPause;
        continue;
      }
      if (open.size() == kMostConnections) {
        Refuse(open.front());
        open.pop_front();
      }
      if (!Advance(open.emplace_back(fd, HttpClock::now() + deadline_))) open.pop_back();
    }
  }
}

bool HttpPort::Advance(Connection& connection) {
  std::array<char, kMostHeadBytes> bytes;
  if (connection.phase == Connection::Phase::kReceive) {
    std::string& head = connection.head;
    const ssize_t got = recv(connection.socket.fd(), bytes.data(), kMostHeadBytes - head.size(), 0);
    if (got < 0) return MayRetryHttp(errno);
    if (got == 0 && head.empty()) return false;
    head.append(bytes.data(), static_cast<std::size_t>(got));
    if (got > 0 && head.size() < kMostHeadBytes && !HttpHeadEnds(head)) return true;
    connection.reply = Answer(connection);
    connection.phase = Connection::Phase::kSend;
    connection.deadline = HttpClock::now() + deadline_;
  }
  if (connection.phase == Connection::Phase::kSend) {
    const std::string_view reply = connection.reply;
    while (connection.sent < reply.size()) {
      const std::string_view rest = reply.substr(connection.sent);
      const ssize_t sent = send(connection.socket.fd(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0) return MayRetryHttp(errno);
      connection.sent += static_cast<std::size_t>(sent);
    }
    shutdown(connection.socket.fd(), SHUT_WR);
    connection.phase = Connection::Phase::kWaitForEnd;
    connection.settled = true;
  }
  // To close a socket with unread bytes resets the connection, and the client may lose
  // the reply. So the client closes first.
  const ssize_t got = recv(connection.socket.fd(), bytes.data(), bytes.size(), 0);
  return got > 0 || (got < 0 && MayRetryHttp(errno));
}

std::string HttpPort::Answer(Connection& connection) {
  const bool ends = HttpHeadEnds(connection.head);
  const std::vector<std::string> words =
      ends ? HttpRequestLine(connection.head) : std::vector<std::string>();
  if (words.empty()) {
    Refuse(connection);
    const bool too_long = !ends && connection.head.size() >= kMostHeadBytes;
    return HttpBytes(HttpFailure(too_long ? 431 : 400), true);
  }
  const bool get = words[0] == "GET";
  if (!get && words[0] != "HEAD") return HttpBytes(HttpFailure(405), true);
  return HttpBytes(Render(words[1].substr(0, words[1].find('?'))), get);
}

HttpPort::Reply HttpPort::Render(const std::string& path) const {
  const auto page = pages_.find(path);
  if (page == pages_.end()) return HttpFailure(404);
  try {
    return page->second();
  } catch (...) {
    return HttpFailure(500);
  }
}

void HttpPort::Refuse(Connection& connection) {
  if (!std::exchange(connection.settled, true)) refused_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace hmann::server
