#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/connections/connection_guard.h"

struct addrinfo;

namespace hmann::server {

/// Accepts the connections of a server. gRPC's own listener never accepts again once
/// descriptors ran out (grpc issues 16058, 20418, 31080): one client that holds a
/// thousand connections for a moment would silence a server for good.
///
/// The kernel gives a connection the lowest free number. One whose number comes near the
/// limit (RLIMIT_NOFILE, read each time) is closed at once, so that files can still be
/// opened; a line in the log says so, once a second at most. When others close theirs,
/// the next is taken again.
class Acceptor {
 public:
  /// Takes the listener's and the connection's descriptor; owns the latter.
  using Take = std::function<void(int listener, int connection)>;

  /// Binds every address of "HOST:PORT" and listens; port 0 picks one. Or "unix:PATH": a
  /// socket at which nobody listens any more is replaced; who may connect is said by the
  /// rights of its folder and the umask. Errors: INVALID_ARGUMENT for a host, port or
  /// path that cannot be read; of bind(2) when none can be bound, as
  /// "listen 127.0.0.1:50051: Address already in use".
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const std::string& listen);
  ~Acceptor() { Stop(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int port() const { return port_; }  ///< 0 of unix:PATH

  /// Begins to accept, on threads of its own. Once. `server`: its number in channelz.
  /// `guard` says what is not taken, looks after the others, and must outlive this.
  void Start(ConnectionGuard* guard, std::int64_t server, Take take);
  /// Closes the port. Connections that were taken stay. May be called again.
  void Stop();

 private:
  Acceptor() = default;
  absl::Status Open(const std::string& listen);
  absl::Status OpenUnix(const std::string& path);
  absl::Status Bind(const addrinfo& address);
  void Run();
  void Watch();
  void AcceptAll(int listener);
  void Refused(Refusal why);

  std::vector<int> listeners_;
  int port_ = 0;
  std::string path_;                      ///< of unix:PATH, which is removed at the end
  int stop_ = -1, came_ = -1, due_ = -1;  ///< eventfds: of both threads; for watch_; for thread_
  ConnectionGuard* guard_ = nullptr;
  std::int64_t server_ = 0;
  Take take_;
  /// Accepts, and hands over, whereupon gRPC may use it for the first calls of the
  /// connection; so what these may do is watched by another.
  std::thread thread_, watch_;
  std::uint64_t refused_ = 0, told_ = 0;  ///< connections; of the thread alone
  std::int64_t next_line_ns_ = 0;
};

}  // namespace hmann::server
