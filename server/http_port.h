#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace httplib {
class Server;
}

namespace hmann::server {

/// A small HTTP server for operations tools. It answers GET of a few pages and renders
/// each page on request. It uses two threads. A client has five seconds to send its
/// request, and each connection serves one request.
class HttpPort {
 public:
  struct Reply {
    int status = 200;
    std::string text;
  };
  using Page = std::function<Reply()>;

  /// Binds "HOST:PORT"; port 0 picks a free one. Errors: UNAVAILABLE, for example "http
  /// 127.0.0.1:80: cannot be bound".
  static absl::StatusOr<std::unique_ptr<HttpPort>> Listen(const std::string& listen);
  ~HttpPort();
  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

  int port() const { return port_; }

  /// Adds a page, for example at "/metrics". Call it before Start. `page` must be
  /// thread-safe: several threads call it at once.
  void Add(const std::string& path, Page page);
  /// Starts answering, on threads of its own. Call it once.
  void Start();

 private:
  HttpPort();

  const std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace hmann::server
