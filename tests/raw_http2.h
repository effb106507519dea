/// For tests only: HTTP/2 by the frame, as no good client speaks it.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hmann {

/// A connection on which anything can be sent.
class RawHttp2 {
 public:
  explicit RawHttp2(const std::string& address) : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::uint32_t port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.find(':') + 1), &port));
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    EXPECT_EQ(connect(descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    const timeval most{60, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
  }
  ~RawHttp2() { close(descriptor_); }
  RawHttp2(const RawHttp2&) = delete;
  RawHttp2& operator=(const RawHttp2&) = delete;

  static std::string Preface() {
    return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Frame(kSettings, 0, 0, ""));
  }
  static std::string SettingsAck() { return Frame(kSettings, 1, 0, ""); }
  /// A call that has begun: its headers, and the promise of a message. The first of a
  /// connection, stream 1, fills the table of headers; each of the others is 15 bytes.
  static std::string Headers(std::uint32_t stream) {
    constexpr char kEndHeaders = 4;
    static const std::string first =
        absl::StrCat("\x83\x86", Kept(":path", "/hmann.v1.Search/Search"), Kept(":authority", "x"),
                     Kept("content-type", "application/grpc"), Kept("te", "trailers"));
    return Frame(kHeaders, kEndHeaders, stream, stream == 1 ? first : "\x83\x86\xC1\xC0\xBF\xBE");
  }
  static std::string Data(std::uint32_t stream, std::string_view bytes) {
    return Frame(kData, 0, stream, bytes);
  }
  static std::string Reset(std::uint32_t stream) {
    return Frame(kReset, 0, stream, std::string_view("\0\0\0\x8", 4));
  }

  /// False once the server has closed the connection.
  bool Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// Reads, a minute at most, until the server closes the connection.
  bool IsClosedByServer() const {
    std::array<char, 4096> read;
    for (;;) {
      errno = 0;
      const ssize_t got = recv(descriptor_, read.data(), read.size(), 0);
      if (got <= 0) return errno != EAGAIN;
    }
  }

 private:
  static constexpr char kData = 0, kHeaders = 1, kReset = 3, kSettings = 4;

  static std::string Big(std::uint32_t value, int bytes) {
    std::string out;
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> 8 * i);
    return out;
  }
  static std::string Frame(char type, char flags, std::uint32_t stream, std::string_view payload) {
    std::string out = Big(static_cast<std::uint32_t>(payload.size()), 3);
    out += type;
    out += flags;
    return absl::StrCat(out, Big(stream, 4), absl::string_view(payload.data(), payload.size()));
  }
  /// A header that goes into the table.
  static std::string Kept(const std::string& name, const std::string& value) {
    return absl::StrCat("\x40", Text(name), Text(value));
  }
  static std::string Text(const std::string& text) {
    return absl::StrCat(std::string(1, static_cast<char>(text.size())), text);
  }

  const int descriptor_;
};

}  // namespace hmann
