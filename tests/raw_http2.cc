#include "tests/raw_http2.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "tests/loopback.h"

namespace hmann {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

/// The length of a text as HPACK encodes it, with seven bits in its first byte.
std::string Length(std::size_t length) {
  constexpr std::size_t kFirst = 127;
  if (length < kFirst) return std::string(1, static_cast<char>(length));
  std::string out(1, static_cast<char>(kFirst));
  for (length -= kFirst; length >= 128; length >>= 7) out += static_cast<char>(length % 128 + 128);
  return out + static_cast<char>(length);
}

std::string Text(std::string_view text) { return absl::StrCat(Length(text.size()), Absl(text)); }

std::uint64_t Number(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t number = 0;
  for (const char byte : bytes.substr(at, count))
    number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

SSL_CTX* TlsContext() {
  static SSL_CTX* const context = [] {
    SSL_CTX* made = SSL_CTX_new(TLS_client_method());
    constexpr std::array<unsigned char, 3> kH2 = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(made, kH2.data(), kH2.size());
    // Attackers write to connections that the server has closed.
    std::signal(SIGPIPE, SIG_IGN);
    return made;
  }();
  return context;
}

}  // namespace

RawHttp2::RawHttp2(const std::string& address, Over over)
    : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in to = LoopbackAddress(address);
  EXPECT_EQ(connect(descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  const timeval most{60, 0}, most_to_send{2, 0};
  setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
  setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &most_to_send, sizeof(most_to_send));
  if (over == Over::kPlaintext) return;
  tls_.reset(SSL_new(TlsContext()));
  SSL_set_fd(tls_.get(), descriptor_);
  SSL_connect(tls_.get());  // if it fails, so does Send
}

RawHttp2::~RawHttp2() { close(descriptor_); }

std::string RawHttp2::Big(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> 8 * i);
  return out;
}

std::string RawHttp2::Frame(char type, char flags, std::uint32_t stream, std::string_view payload) {
  std::string out = Big(payload.size(), 3);
  out += type;
  out += flags;
  return absl::StrCat(out, Big(stream, 4), Absl(payload));
}

std::string RawHttp2::Preface(std::string_view settings) {
  return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Frame(kSettings, 0, 0, settings));
}

std::string RawHttp2::Kept(std::string_view name, std::string_view value) {
  return absl::StrCat("\x40", Text(name), Text(value));
}

std::string RawHttp2::Headers(std::uint32_t stream, std::string_view path) {
  const std::string first =
      absl::StrCat("\x83\x86", Kept(":path", path), Kept(":authority", "x"),
                   Kept("content-type", "application/grpc"), Kept("te", "trailers"));
  return Frame(kHeaders, kEndHeaders, stream, stream == 1 ? first : "\x83\x86\xC1\xC0\xBF\xBE");
}

std::string RawHttp2::Request(std::uint32_t stream, std::string_view message) {
  return Headers(stream) +
         Data(stream, absl::StrCat(Big(message.size(), 5), Absl(message)), kEndStream);
}

bool RawHttp2::Send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = tls_ == nullptr
                             ? send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                             : SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (sent <= 0) {
      ERR_clear_error();
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

int RawHttp2::Read(std::string* received) const {
  std::array<char, 4096> read;
  errno = 0;
  const ssize_t got = tls_ == nullptr
                          ? recv(descriptor_, read.data(), read.size(), 0)
                          : SSL_read(tls_.get(), read.data(), static_cast<int>(read.size()));
  if (got > 0) {
    received->append(read.data(), static_cast<std::size_t>(got));
    return 1;
  }
  ERR_clear_error();
  return errno == EAGAIN ? -1 : 0;
}

bool RawHttp2::IsClosedByServer() const {
  for (;;) {
    std::string received;
    if (const int read = Read(&received); read <= 0) return read == 0;
  }
}

std::string RawHttp2::ReadFrame(std::string* received) const {
  constexpr std::size_t kHead = 9;
  for (;;) {
    const std::size_t length = received->size() < kHead ? 0 : kHead + Number(*received, 0, 3);
    if (length > 0 && received->size() >= length) {
      std::string frame = received->substr(0, length);
      received->erase(0, length);
      return frame;
    }
    if (Read(received) <= 0) return "";
  }
}

bool RawHttp2::SendLong(std::uint32_t stream, std::string_view begin, std::uint64_t more) const {
  constexpr std::int64_t kWindow = 65'535, kMostFrame = 16'384;
  // Waits for the server's settings, as its window may be smaller (RFC 9113, 6.9.2).
  bool told = false;
  std::int64_t of_connection = kWindow - static_cast<std::int64_t>(begin.size()),
               of_stream = of_connection, settings = kWindow;
  std::string received;
  if (!Send(Data(stream, begin))) return false;
  while (more > 0) {
    const std::int64_t now =
        std::min({kMostFrame, of_connection, of_stream, static_cast<std::int64_t>(more)});
    if (now > 0 && told) {
      if (!Send(Data(stream, std::string(static_cast<std::size_t>(now), 'x')))) return false;
      of_connection -= now;
      of_stream -= now;
      more -= static_cast<std::uint64_t>(now);
      continue;
    }
    const std::string frame = ReadFrame(&received);
    if (frame.empty() || frame[3] == kReset) return false;
    if (frame[3] == kPing && frame[4] != kAck) Send(Frame(kPing, kAck, 0, frame.substr(9)));
    if (frame[3] == kWindowUpdate)
      (Number(frame, 5, 4) == 0 ? of_connection : of_stream) +=
          static_cast<std::int64_t>(Number(frame, 9, 4));
    told = told || (frame[3] == kSettings && frame[4] != kAck);
    for (std::size_t at = 9; frame[3] == kSettings && at + 6 <= frame.size(); at += 6) {
      if (Number(frame, at, 2) != 4) continue;  // the window of a stream
      const auto window = static_cast<std::int64_t>(Number(frame, at + 2, 4));
      of_stream += window - settings;
      settings = window;
    }
  }
  return true;
}

bool RawHttp2::Receives(std::string_view bytes) const {
  std::string received;
  while (received.find(bytes) == std::string::npos) {
    if (Read(&received) <= 0) return false;
  }
  return true;
}

}  // namespace hmann
