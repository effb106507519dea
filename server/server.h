#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/loader.h"
#include "server/options.h"

namespace grpc {
class Server;
namespace experimental {
class ExternalConnectionAcceptor;
}
}  // namespace grpc

namespace hmann::server {

class Acceptor;
class AdminService;
class ByteAccount;
class ConnectionGuard;
class HttpPort;
class Metrics;
class Reconciler;
class ReplyWatch;
class Scrubber;
class SearchPool;
class SearchService;
class TlsWatch;
class TokenFile;
class UnreadRequests;
class ValdService;
class WriteService;
class Writers;

/// A running server. Start binds the port first, with every health entry NOT_SERVING. It
/// then opens and warms the indexes one after another; a load that does not move lets the
/// next begin. Each index serves as soon as it is warm. An index that fails to load does
/// not stop the others.
///
/// Health: "hmann.index.<name>" is SERVING once that index or alias serves;
/// "hmann.v1.Search" and "" once any does. An index whose file changes or proves damaged
/// is withdrawn, and its health entry with it.
///
/// Thread safety: call Start, Shutdown and the destructor from one thread. The rest may
/// be called from any thread.
class Server {
 public:
  /// Reads the configuration again. The server uses only indexes, aliases, `open` and
  /// `warm` of the result. One thread at a time calls it, and waits if it hangs.
  using Configuration = std::function<absl::StatusOr<ServerOptions>()>;

  /// Errors: those of options.Validate(); those of bind(2), e.g. for a port in use, as
  /// "listen 127.0.0.1:50051: Address already in use".
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       Configuration configuration = nullptr);
  ~Server();

  int port() const;
  /// For example "127.0.0.1:50051", with the port that was picked.
  std::string address() const;
  /// The address of /metrics, for example "127.0.0.1:9100"; empty when there is none.
  std::string http_address() const;

  /// nullopt while an index is loading. Errors: FAILED_PRECONDITION with the reasons when
  /// none serves.
  std::optional<absl::Status> Loaded() const;
  /// Reads tokens, TLS files and tuned tables again soon, and logs the outcome. They are
  /// also read when they change. The configuration is read only here. If it is not valid,
  /// it changes nothing.
  void Reload() {
    reload_.store(true);
    configure_.store(configuration_ != nullptr);
  }

  const Registry& registry() const { return *registry_; }
  /// Whether an operator of this index alone may name `path` (Reconciler::InFolderOf).
  bool InFolderOf(const std::string& name, const std::string& path) const;
  OpenOptions open() const { return indexes_->open(); }
  /// Adds a name and loads its file. If that fails, the name is removed. Errors, all by
  /// `done`: those of Registry::Add and Loader::Load.
  void Load(const IndexSpec& spec, const Probe& probe, const Loader::Done& done);
  /// Loads a file (empty: what lies under its path now) in place of the one that is
  /// served under `name`. Errors, all by `done`: NOT_FOUND; those of Loader::Load.
  void Swap(const std::string& name, std::string path, const Probe& probe,
            const Loader::Done& done);
  /// Removes a name; requests that have started still end. Errors: NOT_FOUND.
  absl::Status Unload(const std::string& name);

  /// BeginDrain, soon and on another thread.
  void RequestDrain() { drain_.store(true); }
  /// Sets health to NOT_SERVING for good and closes the port, so that load balancers go
  /// elsewhere. Searches on existing connections are still answered.
  void BeginDrain();
  /// Refuses new searches (UNAVAILABLE) until none has arrived for a moment, then accepts
  /// no more calls at all. Running calls get `grace` to end and are then cancelled.
  /// Returns when all have ended.
  void Shutdown(std::chrono::nanoseconds grace);
  /// Cancels the running calls, which ends a Shutdown early.
  void CancelCalls();

 private:
  Server(const ServerOptions& options, Configuration configuration);
  absl::Status Listen();
  absl::Status ListenHttp();
  void Configure();
  absl::StatusOr<std::shared_ptr<ServedIndex>> Find(const std::string& name) const;
  void Remove(const ServedIndex& index);
  void WatchCalls();
  void WatchFiles();
  void WatchIndexes();
  void ReloadFiles(bool requested);
  void ReloadTuned(bool requested);
  void Report(const char* what, const absl::StatusOr<bool>& changed, bool requested);
  void PublishHealth();
  void Withdrawn(const ServedIndex& index);
  void Tried(ServedIndex& index, const absl::StatusOr<Snapshot>& loaded);
  void RefuseUntilQuiet(std::chrono::nanoseconds most);

  const ServerOptions options_;
  const std::unique_ptr<Registry> registry_;
  const std::unique_ptr<ByteAccount> account_;
  const std::unique_ptr<SearchPool> pool_;
  const std::unique_ptr<Metrics> metrics_;
  const std::unique_ptr<ReplyWatch> replies_;
  std::unique_ptr<UnreadRequests> unread_;
  const std::unique_ptr<Loader> indexes_;
  const std::unique_ptr<Writers> writers_;
  const std::unique_ptr<Reconciler> reconciler_;
  const Configuration configuration_;
  std::unique_ptr<TokenFile> tokens_;
  std::unique_ptr<TlsWatch> tls_;
  std::unique_ptr<SearchService> service_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<WriteService> writes_;
  std::unique_ptr<ValdService> vald_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<ConnectionGuard> guard_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> stop_{false}, draining_{false}, drain_{false}, reload_{false};
  std::atomic<bool> reload_tuned_{false}, configure_{false}, configuring_{false};
  std::atomic<std::uint64_t> failed_reloads_{0};
  std::mutex report_mutex_, health_mutex_, drain_mutex_;
  std::map<std::string, absl::Status> reported_;  ///< last failures; under report_mutex_
  std::set<std::string> published_;  ///< names with a health entry; under health_mutex_
  std::thread watcher_, file_watcher_, index_watcher_;
  std::unique_ptr<Scrubber> scrubber_;
  std::unique_ptr<HttpPort> http_;  // its pages read all members above
};

}  // namespace hmann::server
