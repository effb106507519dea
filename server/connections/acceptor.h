#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/file.h"
#include "server/connections/connection_guard.h"

namespace hmann::server {

/// Accepts the connections of a server. gRPC's own listener never accepts again once
/// descriptors ran out (grpc issues 16058, 20418, 31080). One client that holds a
/// thousand connections for a moment would silence a server for good.
///
/// The kernel gives a connection the lowest free descriptor number. A connection whose
/// number comes near the limit (RLIMIT_NOFILE, read each time) is closed immediately, so
/// that files can still be opened. A log line says so, at most once a second. As soon as
/// others close their connections, new ones are accepted again.
class Acceptor {
 public:
  /// Receives the listener's and the connection's descriptors; it owns the latter.
  using Take = std::function<void(int listener, int connection)>;

  /// Binds every address of "HOST:PORT" and listens; port 0 picks one. With "unix:PATH",
  /// a stale socket that has no listener is replaced; `socket_mode` and the rights of its
  /// folder decide which users may connect. Errors: INVALID_ARGUMENT for a host, port or
  /// path that cannot be read; those of bind(2) when no address can be bound, as "listen
  /// 127.0.0.1:50051: Address already in use".
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const std::string& listen,
                                                          int socket_mode = 0666);
  ~Acceptor() { Stop(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int port() const { return port_; }  ///< 0 for unix:PATH

  /// Listens at a second address, too, "HOST:PORT". Errors: as Listen.
  absl::Status Also(const std::string& listen);
  /// Starts accepting, on threads of its own. Call it once. `server`: its number in
  /// channelz. `guard` decides which connections to reject and watches the others. It
  /// must outlive this.
  void Start(ConnectionGuard* guard, std::int64_t server, Take take);
  /// Closes the port. Accepted connections stay. May be called again.
  void Stop();

 private:
  Acceptor() = default;
  absl::Status OpenUnix(const std::string& path, int mode);
  void RemovePath();
  void Run();
  void Watch();
  void AcceptAll(int listener);
  void Refused(Refusal why);

  std::vector<FileDescriptor> listeners_;
  int port_ = 0;
  std::string path_;                  ///< for unix:PATH; removed at the end
  std::uint64_t inode_ = 0;           ///< of path_
  FileDescriptor stop_, came_, due_;  ///< eventfds: both threads; watch_; thread_
  ConnectionGuard* guard_ = nullptr;
  std::int64_t server_ = 0;
  Take take_;
  /// thread_ accepts connections and hands them over. gRPC may use it for the first calls
  /// of a connection, so watch_, a separate thread, polices the calls.
  std::thread thread_, watch_;
  std::uint64_t refused_ = 0, told_ = 0;  ///< connections; used by thread_ only
  std::int64_t next_line_ns_ = 0;
};

}  // namespace hmann::server
