/// For tests only: HTTP/2 frame by frame, as no well-behaved client speaks it.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hmann {

/// A connection on which anything can be sent.
class RawHttp2 {
 public:
  enum class Over { kPlaintext, kTls };

  /// `address`: "127.0.0.1:PORT". Over TLS any certificate is accepted.
  explicit RawHttp2(const std::string& address, Over over = Over::kPlaintext);
  ~RawHttp2();
  RawHttp2(const RawHttp2&) = delete;
  RawHttp2& operator=(const RawHttp2&) = delete;

  static constexpr char kData = 0, kHeaders = 1, kPriority = 2, kReset = 3, kSettings = 4,
                        kPushPromise = 5, kPing = 6, kGoAway = 7, kWindowUpdate = 8,
                        kContinuation = 9;
  static constexpr char kAck = 1, kEndStream = 1, kEndHeaders = 4, kPadded = 8;

  static std::string Frame(char type, char flags, std::uint32_t stream, std::string_view payload);
  /// `value` as `bytes` bytes, big-endian.
  static std::string Big(std::uint64_t value, int bytes);
  /// The first bytes that a client sends. `settings`: payload of its SETTINGS.
  static std::string Preface(std::string_view settings = "");
  static std::string SettingsAck() { return Frame(kSettings, kAck, 0, ""); }
  static std::string Ping() { return Frame(kPing, 0, 0, kPingPayload); }
  /// The headers of a search. The first on a connection, stream 1, fills the header
  /// table; each of the others takes 15 bytes.
  /// `path` is used in those of stream 1; later ones repeat it.
  static std::string Headers(std::uint32_t stream,
                             std::string_view path = "/hmann.v1.Search/Search");
  /// A header as a header block that enters the table.
  static std::string Kept(std::string_view name, std::string_view value);
  static std::string Data(std::uint32_t stream, std::string_view bytes, char flags = 0) {
    return Frame(kData, flags, stream, bytes);
  }
  /// A whole request: headers, then `message` preceded by its length.
  static std::string Request(std::uint32_t stream, std::string_view message);
  static std::string Reset(std::uint32_t stream) {
    return Frame(kReset, 0, stream, std::string_view("\0\0\0\x8", 4));
  }

  /// False if the server has closed the connection, or accepts nothing for two seconds.
  bool Send(std::string_view bytes) const;
  /// Reads, for a minute at most, until the server closes the connection.
  bool IsClosedByServer() const;
  /// Reads, for a minute at most, until the received bytes contain `bytes` or the
  /// connection ends.
  bool Receives(std::string_view bytes) const;
  /// Sends data on `stream`, the first of its connection: `begin`, then `more` bytes, as
  /// fast as the server allows. False if the server has reset it, or has closed all.
  bool SendLong(std::uint32_t stream, std::string_view begin, std::uint64_t more) const;
  /// Sends a PING and returns whether it is answered.
  bool Answers() const { return Send(Ping()) && Receives(Frame(kPing, kAck, 0, kPingPayload)); }

 private:
  static constexpr std::string_view kPingPayload = "8 bytes!";
  struct Free {
    void operator()(SSL* tls) const { SSL_free(tls); }
  };

  /// The next frame, header and payload; empty at the end.
  std::string ReadFrame(std::string* received) const;
  /// Appends received bytes. 0: the connection ended; -1: nothing arrived for a minute.
  int Read(std::string* received) const;

  const int descriptor_;
  std::unique_ptr<SSL, Free> tls_;  ///< null in plaintext
};

}  // namespace hmann
