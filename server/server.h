#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/options.h"

namespace grpc {
class Server;
namespace experimental {
class ExternalConnectionAcceptor;
}
}  // namespace grpc

namespace hmann::server {

class Acceptor;
class ConnectionGuard;
class HttpPort;
class Metrics;
class Registry;
class ReplyWatch;
class Scrubber;
class SearchPool;
class SearchService;
class ServedIndex;
class TokenFile;

/// A running server. The port is bound first, with every health entry NOT_SERVING;
/// indexes are then opened and warmed one after the other and serve as soon as they are
/// warm. An index that cannot be loaded does not stop the others.
///
/// Health: "hmann.index.<name>" once that index serves; "hmann.v1.Search" once any does;
/// "" once all do. An index whose file changes or is found damaged is withdrawn, and its
/// health with it.
///
/// Thread safety: Start, Shutdown and the destructor from one thread; the rest from any.
class Server {
 public:
  /// Errors: of options.Validate(); of bind(2), e.g. for a port in use, as "listen
  /// 127.0.0.1:50051: Address already in use".
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();

  int port() const;
  /// "127.0.0.1:50051", with the port that was picked.
  std::string address() const;
  /// "127.0.0.1:9100", of /metrics; empty when there is none.
  std::string http_address() const;

  /// Blocks until every index serves or has failed. Errors: FAILED_PRECONDITION when none
  /// serves, with the reasons.
  absl::Status WaitLoaded();

  /// Health says NOT_SERVING, for good, and the port is closed, so that balancers go
  /// elsewhere; searches on connections that there are are still answered.
  void BeginDrain();
  /// Refuses new searches (UNAVAILABLE) until none has come for a moment, then takes no
  /// more calls at all, gives those that run `grace` to end, then cancels them. Returns
  /// when all have ended.
  void Shutdown(std::chrono::nanoseconds grace);
  /// Cancels the calls that run now; ends a Shutdown early.
  void CancelCalls();

 private:
  explicit Server(const ServerOptions& options);
  absl::Status Listen();
  absl::Status ListenHttp();
  void Load();
  void Watch();
  void ReloadTokens();
  void TellHealth();
  void Withdrawn(const ServedIndex& index);
  void RefuseUntilQuiet(std::chrono::nanoseconds most);

  const ServerOptions options_;
  const std::unique_ptr<Registry> registry_;
  const std::unique_ptr<SearchPool> pool_;
  const std::unique_ptr<Metrics> metrics_;
  const std::unique_ptr<ReplyWatch> replies_;
  std::unique_ptr<TokenFile> tokens_;
  std::unique_ptr<SearchService> service_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<ConnectionGuard> guard_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> stop_{false}, draining_{false};
  std::mutex mutex_;
  std::condition_variable loaded_changed_;
  bool loaded_ = false;
  std::mutex health_mutex_;
  std::thread loader_, watcher_;
  std::unique_ptr<Scrubber> scrubber_;
  std::unique_ptr<HttpPort> http_;  // its pages are of all the others
};

}  // namespace hmann::server
