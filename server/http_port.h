#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/file.h"

namespace hmann::server {

/// A small HTTP/1 server for operations tools. It answers GET and HEAD of a few pages and
/// renders each page on request. One thread serves all connections, without waiting for
/// any of them. A connection serves one request. The port holds at most kMostConnections
/// + 3 descriptors (more if the host has several addresses) and little memory.
class HttpPort {
 public:
  struct Reply {
    int status = 200;
    std::string text;
  };
  using Page = std::function<Reply()>;

  /// Open connections. A further one takes the place of the one that was opened first, so
  /// silent clients never keep others away.
  static constexpr std::size_t kMostConnections = 32;
  /// Request line and headers, in bytes. A longer request gets 431.
  static constexpr std::size_t kMostHeadBytes = 4096;
  static constexpr std::chrono::milliseconds kDeadline{5000};

  /// Binds "HOST:PORT": an address ("127.0.0.1", "[::1]") or a name, which may have
  /// several; port 0 picks a free one. `deadline` is the time for receiving a whole
  /// request, and again for sending the whole reply, however the bytes arrive. Errors:
  /// INVALID_ARGUMENT if the host or the port has no meaning; UNAVAILABLE, for example
  /// "--http 127.0.0.1:80: Address already in use".
  static absl::StatusOr<std::unique_ptr<HttpPort>> Listen(
      const std::string& listen, std::chrono::milliseconds deadline = kDeadline);
  /// Closes all connections. It waits for a page that is being rendered, and for nothing
  /// else.
  ~HttpPort();
  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

  int port() const { return port_; }

  /// Adds a page, for example at "/metrics". Call it before Start. The thread of the port
  /// calls `page`, and all clients wait meanwhile. If `page` throws, the client gets 500.
  void Add(const std::string& path, Page page);
  /// Starts answering, on a thread of its own. Call it once.
  void Start();

  /// Connections refused since Start: closed before their reply was sent, to make room or
  /// at the deadline, or answered with 400 or 431. Clients that leave before they send
  /// anything, or before they read their reply, do not count. Thread-safe.
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Connection;

  explicit HttpPort(std::chrono::milliseconds deadline) : deadline_(deadline) {}

  void Run();
  /// Receives and sends without waiting. Returns false when the connection is over.
  bool Advance(Connection& connection);
  /// The reply to a head, which may be incomplete.
  std::string Answer(Connection& connection);
  Reply Render(const std::string& path) const;
  void Refuse(Connection& connection);

  const std::chrono::milliseconds deadline_;
  std::map<std::string, Page> pages_;
  std::vector<FileDescriptor> listeners_;
  FileDescriptor stop_;  ///< an eventfd
  int port_ = 0;
  std::atomic<std::uint64_t> refused_{0};
  std::thread thread_;
};

}  // namespace hmann::server
