// The HTTP port and clients that do not behave.
#include "server/http_port.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/clock.h"

namespace hmann::server {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

constexpr std::size_t kBigPageBytes = 16 << 20;  // more than sockets buffer

/// A TCP connection on which anything can be sent.
class PlainConnection {
 public:
  explicit PlainConnection(int port, int family = AF_INET)
      : fd_(socket(family, SOCK_STREAM, 0)), family_(family) {
    const timeval most{60, 0};
    const int on = 1, small = 64 << 10;
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (port != 0) Connect(port);
  }
  ~PlainConnection() { close(fd_); }
  PlainConnection(const PlainConnection&) = delete;
  PlainConnection& operator=(const PlainConnection&) = delete;

  void Connect(int port) const {
    const auto number = htons(static_cast<std::uint16_t>(port));
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = number;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = number;
    v6.sin6_addr = in6addr_loopback;
    const bool four = family_ == AF_INET;
    const auto* to =
        four ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
    EXPECT_EQ(connect(fd_, to, four ? sizeof(v4) : sizeof(v6)), 0) << errno;
  }
  /// Returns whether all could be sent.
  bool Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void EndSending() const { shutdown(fd_, SHUT_WR); }
  /// Everything up to the end of the connection. " (reset)" is appended if it broke.
  std::string Receive() const {
    std::string all;
    std::vector<char> bytes(1 << 16);
    for (;;) {
      const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
      if (got < 0) return absl::StrCat(all, " (reset)");
      if (got == 0) return all;
      all.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }
  bool HasEnded() const {
    pollfd polled{fd_, POLLIN, 0};
    char byte = 0;
    return poll(&polled, 1, 0) > 0 && recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
  }

 private:
  const int fd_, family_;
};

std::unique_ptr<HttpPort> StartHttpPort(std::chrono::milliseconds deadline = 1h,
                                        const std::string& listen = "127.0.0.1:0") {
  auto http = HttpPort::Listen(listen, deadline);
  EXPECT_TRUE(http.ok()) << http.status();
  if (!http.ok()) return nullptr;
  (*http)->Add("/livez", [] { return HttpPort::Reply{200, "ok\n"}; });
  (*http)->Add("/readyz", [] { return HttpPort::Reply{503, "sift: loading\n"}; });
  (*http)->Add("/big", [] { return HttpPort::Reply{200, std::string(kBigPageBytes, 'x')}; });
  (*http)->Add("/throws",
               []() -> HttpPort::Reply { throw std::runtime_error("a page that fails"); });
  (*http)->Start();
  return *std::move(http);
}

std::string HttpExchange(int port, std::string_view request) {
  const PlainConnection connection(port);
  connection.Send(request);
  return connection.Receive();
}

std::string RawReply(const std::string& line, const std::string& text,
                     const std::string& more = "") {
  return absl::StrCat(
      "HTTP/1.1 ", line, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8",
      "\r\nContent-Length: ", text.size(), more, "\r\nConnection: close\r\n\r\n", text);
}

const std::string& LiveReply() {
  static const auto* reply = new std::string(RawReply("200 OK", "ok\n"));
  return *reply;
}

/// Whether /livez answers. This process may be the one that is too slow for the deadline,
/// so it asks a few times.
bool Lives(int port) {
  for (int i = 0; i < 5; ++i) {
    if (HttpExchange(port, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n") == LiveReply()) return true;
  }
  return false;
}

/// Open descriptors of this process.
std::size_t OpenDescriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// Waits until `refused` connections were refused, for a minute at most.
void WaitForRefused(const HttpPort& http, std::uint64_t refused) {
  const auto begun = std::chrono::steady_clock::now();
  while (http.refused() < refused && SecondsSince(begun) < 60) std::this_thread::sleep_for(1ms);
}

TEST(HttpPortTest, PagesAndCodes) {
  const auto http = StartHttpPort();
  const int port = http->port();
  EXPECT_EQ(HttpExchange(port, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"), LiveReply());
  EXPECT_EQ(HttpExchange(port, "GET /livez HTTP/1.0\r\n\r\n"), LiveReply());
  EXPECT_EQ(HttpExchange(port, "GET /livez HTTP/1.1\nHost: x\n\n"), LiveReply());
  EXPECT_EQ(HttpExchange(port, "GET /livez?x=1&y HTTP/1.1\r\n\n"), LiveReply());
  EXPECT_EQ(HttpExchange(port, "GET /readyz HTTP/1.1\r\n\r\n"),
            RawReply("503 Service Unavailable", "sift: loading\n"));
  EXPECT_EQ(HttpExchange(port, "HEAD /livez HTTP/1.1\r\n\r\n"),
            LiveReply().substr(0, LiveReply().size() - 3));
  for (const char* path : {"/", "/else", "/livez/", "/?/livez", "*"}) {
    EXPECT_EQ(HttpExchange(port, absl::StrCat("GET ", path, " HTTP/1.1\r\n\r\n")),
              RawReply("404 Not Found", "Not Found\n"));
  }
  for (const char* method : {"POST", "DELETE", "OPTIONS", "get", "GETS"}) {
    EXPECT_EQ(HttpExchange(port, absl::StrCat(method, " /livez HTTP/1.1\r\n\r\n")),
              RawReply("405 Method Not Allowed", "Method Not Allowed\n", "\r\nAllow: GET, HEAD"));
  }
  EXPECT_EQ(HttpExchange(port, "GET /throws HTTP/1.1\r\n\r\n"),
            RawReply("500 Internal Server Error", "Internal Server Error\n"));
  EXPECT_EQ(http->refused(), 0u);
}

TEST(HttpPortTest, OneRequestPerConnection) {
  const auto http = StartHttpPort();
  EXPECT_EQ(
      HttpExchange(http->port(), "GET /livez HTTP/1.1\r\n\r\nGET /readyz HTTP/1.1\r\n\r\nnonsense"),
      LiveReply());
  EXPECT_EQ(http->refused(), 0u);
}

TEST(HttpPortTest, MalformedRequests) {
  const auto http = StartHttpPort();
  const std::string reply = RawReply("400 Bad Request", "Bad Request\n");
  const std::vector<std::string> requests = {"\r\n\r\n",
                                             "nonsense\r\n\r\n",
                                             "GET /livez\r\n\r\n",
                                             "GET  HTTP/1.1\r\n\r\n",
                                             " /livez HTTP/1.1\r\n\r\n",
                                             "GET /livez HTTP/1.1 more\r\n\r\n",
                                             "GET /livez HTTP/9.9\r\n\r\n",
                                             "GET /livez SMTP/1.1\r\n\r\n",
                                             "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                             std::string("\0\1\2\n\n", 5)};
  for (const std::string& request : requests)
    EXPECT_EQ(HttpExchange(http->port(), request), reply) << request;
  const PlainConnection half(http->port());
  half.Send("GET /livez HTTP/1.1\r\n");
  half.EndSending();
  EXPECT_EQ(half.Receive(), reply);
  EXPECT_EQ(http->refused(), requests.size() + 1);
  EXPECT_TRUE(Lives(http->port()));
}

TEST(HttpPortTest, RequestsInManyPieces) {
  const auto http = StartHttpPort();
  for (const std::string_view request :
       {"GET /livez?x HTTP/1.1\r\nHost: x\r\n\r\n", "GET /livez HTTP/1.0\n\n"}) {
    const PlainConnection connection(http->port());
    for (const char& byte : request) {
      EXPECT_FALSE(connection.HasEnded());
      EXPECT_TRUE(connection.Send({&byte, 1}));
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(connection.Receive(), LiveReply());
  }
  const PlainConnection ends_early(http->port());
  ends_early.Send("GET /livez HTTP/1.1\r\n\r\n");
  ends_early.EndSending();
  EXPECT_EQ(ends_early.Receive(), LiveReply());
}

TEST(HttpPortTest, AHeadHasABound) {
  const auto http = StartHttpPort();
  const std::string begin = "GET /livez HTTP/1.1\r\nX: ";
  const std::string fits(HttpPort::kMostHeadBytes - begin.size() - 4, 'x');
  EXPECT_EQ(HttpExchange(http->port(), absl::StrCat(begin, fits, "\r\n\r\n")), LiveReply());
  EXPECT_EQ(http->refused(), 0u);
  for (const std::size_t more : {1, 4, 100, 1 << 20}) {
    const std::string request = absl::StrCat(begin, fits, std::string(more, 'x'), "\r\n\r\n");
    EXPECT_EQ(HttpExchange(http->port(), request),
              RawReply("431 Request Header Fields Too Large", "Request Header Fields Too Large\n"));
  }
  EXPECT_EQ(http->refused(), 4u);
}

TEST(HttpPortTest, ABodyDoesNotCostTheReply) {
  const auto http = StartHttpPort();
  const std::string body(8 << 20, 'x');
  const std::string headers =
      absl::StrCat(" /livez HTTP/1.1\r\nContent-Length: ", body.size(), "\r\n\r\n");
  const PlainConnection get(http->port()), post(http->port());
  EXPECT_TRUE(get.Send(absl::StrCat("GET", headers, body)));
  EXPECT_EQ(get.Receive(), LiveReply());
  EXPECT_TRUE(post.Send(absl::StrCat("POST", headers, body)));
  EXPECT_THAT(post.Receive(),
              AllOf(StartsWith("HTTP/1.1 405 "), EndsWith("\r\n\r\nMethod Not Allowed\n")));
  EXPECT_EQ(http->refused(), 0u);
}

TEST(HttpPortTest, TricklingClientsKeepNoOthersAway) {
  const auto http = StartHttpPort(300ms);
  std::list<PlainConnection> trickling;
  for (int i = 0; i < 3; ++i) trickling.emplace_back(http->port());
  const auto begun = std::chrono::steady_clock::now();
  int turns = 0;
  while (!trickling.empty() && SecondsSince(begun) < 60) {
    for (const PlainConnection& connection : trickling) connection.Send("x");
    EXPECT_TRUE(Lives(http->port())) << turns;
    std::this_thread::sleep_for(50ms);
    trickling.remove_if([](const PlainConnection& connection) { return connection.HasEnded(); });
    ++turns;
  }
  EXPECT_TRUE(trickling.empty()) << "the deadline is for the whole request";
  EXPECT_GT(turns, 1);
  EXPECT_GE(http->refused(), 3u);
}

TEST(HttpPortTest, SilentClientsMakeRoom) {
  constexpr std::size_t kSilent = 200, kOthers = 8;
  const std::size_t before = OpenDescriptors();
  std::list<PlainConnection> silent;
  {
    const auto http = StartHttpPort();
    for (std::size_t i = 1; i <= kSilent; ++i) {
      silent.emplace_back(http->port());
      if (i % 50 == 0) {
        EXPECT_TRUE(Lives(http->port()));
      }
      EXPECT_LE(OpenDescriptors(), before + i + HttpPort::kMostConnections + kOthers);
    }
    // All have been accepted: the last one to live came after them.
    EXPECT_GE(http->refused(), kSilent - HttpPort::kMostConnections);
    EXPECT_LE(http->refused(), kSilent);
    EXPECT_TRUE(silent.front().HasEnded()) << "the oldest";
    EXPECT_FALSE(silent.back().HasEnded());
  }
  EXPECT_TRUE(silent.back().HasEnded());
  EXPECT_LE(OpenDescriptors(), before + kSilent + kOthers);
}

TEST(HttpPortTest, SilentClientsEnd) {
  const auto http = StartHttpPort(50ms);
  const PlainConnection silent(http->port()), half(http->port());
  half.Send("GET /livez HT");
  EXPECT_EQ(silent.Receive(), "");
  EXPECT_EQ(half.Receive(), "");
  EXPECT_EQ(http->refused(), 2u);
}

TEST(HttpPortTest, ALargePageArrivesWhole) {
  const auto http = StartHttpPort();
  const PlainConnection slow(http->port());
  slow.Send("GET /big HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(Lives(http->port())) << "while another reply waits for its reader";
  const std::string text(kBigPageBytes, 'x');
  EXPECT_TRUE(slow.Receive() == RawReply("200 OK", text));
  EXPECT_EQ(http->refused(), 0u);
}

TEST(HttpPortTest, ASlowPageTakesNoTimeFromOthers) {
  const auto http = HttpPort::Listen("127.0.0.1:0", 1s);
  ASSERT_TRUE(http.ok()) << http.status();
  const std::string text(kBigPageBytes, 'x');
  (*http)->Add("/slow", [&text] {
    std::this_thread::sleep_for(1500ms);  // longer than the deadline
    return HttpPort::Reply{200, text};
  });
  (*http)->Start();
  const PlainConnection slow((*http)->port()), other((*http)->port());
  // Connections are accepted in their order, so those two were.
  EXPECT_THAT(HttpExchange((*http)->port(), "GET / HTTP/1.1\r\n\r\n"), HasSubstr("404"));
  slow.Send("GET /slow HTTP/1.1\r\n\r\n");
  other.Send("GET /else HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(slow.Receive() == RawReply("200 OK", text));
  EXPECT_EQ(other.Receive(), RawReply("404 Not Found", "Not Found\n"));
  EXPECT_EQ((*http)->refused(), 0u);
}

TEST(HttpPortTest, AClientThatDoesNotReadItsReply) {
  const auto http = StartHttpPort(300ms);
  const PlainConnection connection(http->port());
  connection.Send("GET /big HTTP/1.1\r\n\r\n");
  WaitForRefused(*http, 1);
  EXPECT_EQ(http->refused(), 1u);
  EXPECT_LT(connection.Receive().size(), kBigPageBytes);
}

TEST(HttpPortTest, ClientsThatLeaveAreNotRefused) {
  const auto http = StartHttpPort();
  for (int i = 0; i < 100; ++i) {
    const PlainConnection connection(http->port());
    if (i % 2 == 0) connection.Send("GET /livez HTTP/1.1\r\n\r\n");
  }
  EXPECT_TRUE(Lives(http->port()));
  // Those that wait for the end of their client were answered.
  std::list<PlainConnection> answered;
  for (std::size_t i = 0; i < 2 * HttpPort::kMostConnections; ++i) {
    answered.emplace_back(http->port());
    answered.back().Send("GET /livez HTTP/1.1\r\n\r\n");
    EXPECT_EQ(answered.back().Receive(), LiveReply());
  }
  EXPECT_EQ(http->refused(), 0u);
}

TEST(HttpPortTest, NoDescriptorIsLeft) {
  const auto http = StartHttpPort();
  const PlainConnection waits(0);  // has its descriptor already
  rlimit old{}, none{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  none = old;
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  none.rlim_cur = static_cast<rlim_t>(next);
  const double begun = ClockSeconds(CLOCK_PROCESS_CPUTIME_ID);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  waits.Connect(http->port());
  waits.Send("GET /livez HTTP/1.1\r\n\r\n");
  std::this_thread::sleep_for(500ms);
  const bool ended = waits.HasEnded();
  const double used = ClockSeconds(CLOCK_PROCESS_CPUTIME_ID) - begun;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_FALSE(ended);
  EXPECT_LT(used, 0.1) << "the thread must not spin";
  EXPECT_EQ(waits.Receive(), LiveReply());
}

TEST(HttpPortTest, ItStopsWithOpenConnections) {
  const auto begun = std::chrono::steady_clock::now();
  {
    auto http = StartHttpPort();
    const PlainConnection silent(http->port()), half(http->port()), unread(http->port()),
        answered(http->port());
    half.Send("GET /li");
    unread.Send("GET /big HTTP/1.1\r\n\r\n");
    answered.Send("GET /livez HTTP/1.1\r\n\r\n");
    EXPECT_EQ(answered.Receive(), LiveReply());
    const int port = http->port();
    http.reset();
    EXPECT_TRUE(silent.HasEnded());
    EXPECT_LT(unread.Receive().size(), kBigPageBytes);
    http = StartHttpPort(1h, absl::StrCat("127.0.0.1:", port));  // SO_REUSEADDR
    ASSERT_NE(http, nullptr);
    EXPECT_TRUE(Lives(port));
  }
  EXPECT_TRUE(HttpPort::Listen("127.0.0.1:0").ok()) << "destroyed without Start";
  EXPECT_LT(SecondsSince(begun), 30) << "the deadline is an hour";
}

TEST(HttpPortTest, Addresses) {
  for (const char* host : {"localhost", "0.0.0.0"}) {
    const auto http = StartHttpPort(1h, absl::StrCat(host, ":0"));
    ASSERT_NE(http, nullptr);
    EXPECT_TRUE(Lives(http->port())) << host;
  }
  if (!HttpPort::Listen("[::1]:0").ok()) GTEST_SKIP() << "this machine has no IPv6";
  const auto http = StartHttpPort(1h, "[::1]:0");
  const PlainConnection six(http->port(), AF_INET6);
  six.Send("GET /livez HTTP/1.1\r\n\r\n");
  EXPECT_EQ(six.Receive(), LiveReply());
  const auto both = StartHttpPort(1h, "[::]:0");
  EXPECT_TRUE(Lives(both->port())) << "over IPv4";
}

TEST(HttpPortTest, WhatCannotBeBoundOrMeantIsNamed) {
  const auto http = StartHttpPort();
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const std::string taken = absl::StrCat(host, ":", http->port());
    EXPECT_EQ(HttpPort::Listen(taken).status(),
              absl::UnavailableError(absl::StrCat("--http ", taken, ": Address already in use")));
  }
  const std::string long_host = absl::StrCat(std::string(300, 'x'), ":80");
  for (const char* listen :
       {"nonsense", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1", ":80", long_host.c_str()}) {
    const absl::Status status = HttpPort::Listen(listen).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << listen;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("--http"), HasSubstr(listen)));
  }
}

}  // namespace
}  // namespace hmann::server
