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

/// What an operator's programs ask over HTTP: GET of a few pages, each made when it is
/// asked for. Two threads; a client has five seconds for its request, and one request a
/// connection.
class HttpPort {
 public:
  struct Reply {
    int status = 200;
    std::string text;
  };
  using Page = std::function<Reply()>;

  /// Binds "HOST:PORT"; port 0 picks one. Errors: UNAVAILABLE, as "http 127.0.0.1:80:
  /// cannot be bound".
  static absl::StatusOr<std::unique_ptr<HttpPort>> Listen(const std::string& listen);
  ~HttpPort();
  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

  int port() const { return port_; }

  /// `path`: "/metrics". Before Start. Called by several threads at once.
  void Add(const std::string& path, Page page);
  /// Answers from now on, on threads of its own. Once.
  void Start();

 private:
  HttpPort();

  const std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace hmann::server
