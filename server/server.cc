#include "server/server.h"

#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <future>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "hmann/tier.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "server/admin.h"
#include "server/connections/acceptor.h"
#include "server/connections/connection_guard.h"
#include "server/connections/grpc_bounds.h"
#include "server/connections/reply_watch.h"
#include "server/connections/tls.h"
#include "server/connections/unread_requests.h"
#include "server/convert.h"
#include "server/core/byte_account.h"
#include "server/core/metrics.h"
#include "server/core/reconciler.h"
#include "server/core/registry.h"
#include "server/core/scrubber.h"
#include "server/core/search_pool.h"
#include "server/core/tokens.h"
#include "server/core/versions.h"
#include "server/core/writers.h"
#include "server/health_calls.h"
#include "server/http_port.h"
#include "server/log.h"
#include "server/service.h"
#include "server/vald/service.h"
#include "server/write_service.h"
#include "spdlog/spdlog.h"

namespace hmann::server {
namespace {

constexpr char kServiceName[] = "hmann.v1.Search";
constexpr std::chrono::milliseconds kOften(20);
constexpr int kSecond = 50;  // times kOften

/// A request of more than ours is refused by name, one of more than this by gRPC itself.
constexpr std::uint64_t kMostOnTheWire = 64 << 20;

std::string HealthName(const std::string& index) { return absl::StrCat("hmann.index.", index); }

/// The largest dimension among the indexes with readable headers, so that their batches
/// fit into a message. If storage does not answer, a large one.
std::uint32_t LargestDim(std::vector<IndexSpec> specs) {
  static constexpr std::uint32_t kUnknown = 4096;  // few models have more
  const auto found = std::make_shared<std::promise<std::uint32_t>>();
  std::future<std::uint32_t> dim = found->get_future();
  std::thread([found, specs = std::move(specs)] {
    std::uint32_t largest = 0;
    for (const IndexSpec& spec : specs) {
      if (Collection::Is(spec.path)) largest = std::max(largest, kUnknown);
      FileVersion file{.path = spec.path};
      if (spec.versions) file = VersionList().Newest(spec).value_or(file);
      if (const absl::StatusOr<IndexInfo> info = ReadInfo(file.path); info.ok())
        largest = std::max(largest, info->dim);
    }
    found->set_value(largest);
  }).detach();
  return dim.wait_for(std::chrono::seconds(1)) == std::future_status::ready ? dim.get() : kUnknown;
}

void WarnOfExpiry(std::int64_t expires) {
  constexpr std::int64_t kDay = 86400, kSoon = 14 * kDay;
  const std::int64_t left = expires - std::time(nullptr);
  if (left <= 0) {
    spdlog::error("the certificate of --tls-cert has expired: clients refuse it");
  } else if (left < kSoon) {
    spdlog::warn("the certificate of --tls-cert expires in {} days", left / kDay);
  }
}

ServerOptions Resolve(ServerOptions options) {
  if (options.threads == 0) {
    // Threads that wait for a device leave their cores free for others.
    const absl::StatusOr<std::unique_ptr<Tier>> slow = MakeTier(options.open.slow);
    options.threads = UsableCores() * (slow.ok() && !(*slow)->traits().addressable ? 8 : 1);
  }
  if (options.limits.max_query_threads == 0)
    options.limits.max_query_threads = static_cast<std::uint32_t>(std::min(options.threads, 64));
  // In a small container the bounds on memory follow what there is: requests and replies
  // take an eighth at most. Connections may take three, of which a part is only promised
  // to them: where gRPC is short, it cuts calls without a word. Guesses.
  const std::uint64_t share = std::max<std::uint64_t>(UsableMemoryBytes() / 8, 16 << 20);
  options.most_bytes = std::min(options.most_bytes, share);
  options.connections.transport_bytes = std::min(options.connections.transport_bytes, 3 * share);
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      Configuration configuration) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  RouteLibraryLogs();
  const ServerOptions resolved = Resolve(options);
  // Two for each that searches, and those of gRPC, of the connections and of the pages.
  HMANN_RETURN_IF_ERROR(CheckThreads(2 * resolved.threads + 16));
  std::unique_ptr<Server> server(new Server(resolved, std::move(configuration)));
  HMANN_RETURN_IF_ERROR(server->ListenHttp());
  HMANN_RETURN_IF_ERROR(server->Listen());
  HMANN_RETURN_IF_ERROR(server->reconciler_->Want(options.indexes, options.aliases).status());
  server->watcher_ = std::thread([raw = server.get()] { raw->WatchCalls(); });
  server->file_watcher_ = std::thread([raw = server.get()] { raw->WatchFiles(); });
  server->index_watcher_ = std::thread([raw = server.get()] { raw->WatchIndexes(); });
  server->scrubber_ = std::make_unique<Scrubber>(
      *server->registry_, options.scrub_bytes_per_second,
      [raw = server.get()](const ServedIndex& index) { raw->Withdrawn(index); });
  if (server->http_ != nullptr) server->http_->Start();
  return server;
}

Server::Server(const ServerOptions& options, Configuration configuration)
    : options_(options),
      registry_(std::make_unique<Registry>(options.indexes, options.aliases)),
      account_(std::make_unique<ByteAccount>(options.most_bytes)),
      pool_(std::make_unique<SearchPool>(
          options.threads,
          PoolBounds{options.queue, options.most_bytes, options.most_work, account_.get()})),
      metrics_(std::make_unique<Metrics>(*registry_)),
      replies_(std::make_unique<ReplyWatch>(options.most_bytes, options.connections.reply_timeout)),
      indexes_(std::make_unique<Loader>(options.open, options.warm)),
      writers_(std::make_unique<Writers>(indexes_.get())),
      reconciler_(std::make_unique<Reconciler>(
          registry_.get(), indexes_.get(),
          Reconciler::Events{[this](auto& index, const auto& loaded) { Tried(index, loaded); },
                             [this] { PublishHealth(); }})),
      configuration_(std::move(configuration)) {}

Server::~Server() {
  http_.reset();
  BeginDrain();
  Shutdown(std::chrono::nanoseconds::zero());
}

absl::Status Server::Listen() {
  const std::uint32_t dim = LargestDim(options_.indexes);
  const std::uint64_t max_request_bytes =
      MaxRequestBytes(dim, options_.limits, options_.most_bytes);
  unread_ = std::make_unique<UnreadRequests>(account_.get(), max_request_bytes);
  service_ = std::make_unique<SearchService>(
      Serving{*registry_, *pool_, options_.limits, options_.default_deadline, *metrics_,
              options_.vald.index},
      max_request_bytes, replies_.get(), unread_.get());
  if (!options_.tokens.empty()) {
    HMANN_ASSIGN_OR_RETURN(tokens_, TokenFile::Open(options_.tokens));
    service_->RequireTokens(tokens_.get());
    registry_->HideNames();
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Bound(options_.connections, &builder);
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::max(max_request_bytes, kMostOnTheWire)));
  if (options_.tls.any()) {
    HMANN_ASSIGN_OR_RETURN(tls_, TlsWatch::Open(options_.tls));
    WarnOfExpiry(tls_->expires());
  }
  HMANN_ASSIGN_OR_RETURN(acceptor_, Acceptor::Listen(options_.listen, options_.socket_mode));
  if (!options_.vald.listen.empty()) HMANN_RETURN_IF_ERROR(acceptor_->Also(options_.vald.listen));
  connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      tls_ == nullptr ? grpc::InsecureServerCredentials() : tls_->Credentials());
  admin_ = std::make_unique<AdminService>(this, service_.get(), metrics_.get());
  writes_ = std::make_unique<WriteService>(*registry_, options_.limits, writers_.get(),
                                           indexes_.get(), metrics_.get());
  if (!options_.vald.index.empty()) {
    vald_ = std::make_unique<ValdService>(service_.get(), writers_.get(), indexes_.get(),
                                          options_.vald.agents);
    builder.RegisterService(vald_.get());
  }
  service_->AnswerAlso(writes_.get(), vald_.get());
  builder.RegisterService(admin_.get());
  builder.RegisterService(writes_.get());
  builder.RegisterService(service_.get());
  builder.RegisterCallbackGenericService(service_.get());
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> counters;
  counters.push_back(std::make_unique<HealthCallCounter>(metrics_.get()));
  builder.experimental().SetInterceptorCreators(std::move(counters));
  std::int64_t number = 0;
  std::tie(server_, number) = StartNumbered(builder);
  if (server_ == nullptr) return Internal("listen ", options_.listen, ": gRPC did not start");
  PublishHealth();  // before any check: gRPC's default is SERVING
  ConnectionLimits limits = options_.connections;
  limits.request_bytes = max_request_bytes;
  limits.single_bytes += dim * sizeof(float);
  guard_ = std::make_unique<ConnectionGuard>(limits, unread_.get());
  acceptor_->Start(guard_.get(), number, [this](int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    connections_->HandleNewConnection(&parameters);
  });
  return absl::OkStatus();
}

absl::Status Server::ListenHttp() {
  if (options_.http.empty()) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(http_, HttpPort::Listen(options_.http));
  http_->Add("/livez", [] { return HttpPort::Reply{200, "ok\n"}; });
  http_->Add("/readyz", [this] {
    // A failed index does not make the others unready.
    bool any = false, loading = false;
    std::string text;
    for (const auto& index : registry_->indexes()) {
      const IndexState state = index->state();
      any = any || state == IndexState::kServing;
      loading = loading || (state == IndexState::kLoading && !reconciler_->tried());
      absl::StrAppend(&text, index->name(), ": ", Name(state), "\n");
    }
    return HttpPort::Reply{any && !loading && !draining_.load() ? 200 : 503, text};
  });
  http_->Add("/metrics", [this] {
    ProcessFacts facts;
    facts.connections = guard_ == nullptr ? nullptr : &guard_->counts();
    facts.writers = writers_.get();
    facts.failed_handshakes = FailedHandshakes();
    facts.http_refused = http_->refused();
    facts.dropped_log_lines = DroppedLines();
    facts.failed_reloads = failed_reloads_.load();
    if (tls_ != nullptr) facts.certificate_expires = tls_->expires();
    return HttpPort::Reply{200, metrics_->Text(*pool_, facts)};
  });
  return absl::OkStatus();
}

int Server::port() const { return acceptor_->port(); }

std::string Server::http_address() const {
  if (http_ == nullptr) return "";
  return absl::StrCat(options_.http.substr(0, options_.http.rfind(':')), ":", http_->port());
}

std::string Server::address() const {
  if (acceptor_->port() == 0) return options_.listen;
  return absl::StrCat(options_.listen.substr(0, options_.listen.rfind(':')), ":", port());
}

/// Reads the configuration and applies it.
void Server::Configure() {
  const auto configure = [this]() -> absl::StatusOr<bool> {
    HMANN_ASSIGN_OR_RETURN(const ServerOptions read, configuration_());
    HMANN_ASSIGN_OR_RETURN(const bool changed, reconciler_->Want(read.indexes, read.aliases));
    indexes_->SetDefaults(read.open, read.warm);
    return changed;
  };
  Report("configuration", configure(), true);
  PublishHealth();
}

/// After each load.
void Server::Tried(ServedIndex& index, const absl::StatusOr<Snapshot>& loaded) {
  PublishHealth();
  if (!loaded.ok()) return spdlog::error("index {}: {}", index.name(), loaded.status().ToString());
  const Generation& generation = loaded->generation();
  spdlog::info("index {}: {} vectors of {} components, ready after {:.3f} s, generation {}",
               index.name(), loaded->rows(), loaded->info().dim, generation.load_seconds(),
               generation.number());
  if (loaded->moment() != nullptr) {
    const CollectionInfo info = generation.collection()->info();
    if (info.lost_writes > 0)
      spdlog::error("index {}: {} writes that were on disk are gone", index.name(),
                    info.lost_writes);
    if (!info.other_files.empty())
      spdlog::warn("index {}: left alone in its folder: {}", index.name(),
                   absl::StrJoin(info.other_files, ", "));
  }
  if (loaded->index() == nullptr) return;
  for (const std::string& warning : loaded->index()->Warnings())
    spdlog::warn("index {}: {}", index.name(), warning);
}

bool Server::InFolderOf(const std::string& name, const std::string& path) const {
  return reconciler_->InFolderOf(name, path);
}

/// Errors: NOT_FOUND; FAILED_PRECONDITION for an alias.
absl::StatusOr<std::shared_ptr<ServedIndex>> Server::Find(const std::string& name) const {
  HMANN_ASSIGN_OR_RETURN(std::shared_ptr<ServedIndex> index, registry_->Find(name));
  if (index->name() == name) return index;
  return FailedPrecondition("'", name, "' is an alias: expected the name of its index, '",
                            index->name(), "'");
}

void Server::Load(const IndexSpec& spec, const Probe& probe, const Loader::Done& done) {
  const std::string path = spec.path;
  if (registry_->aliases().contains(spec.name))
    return done(absl::AlreadyExistsError(absl::StrCat("'", spec.name, "' is an alias")));
  const absl::StatusOr<std::shared_ptr<ServedIndex>> added = registry_->Add(spec);
  if (!added.ok()) return done(added.status());
  indexes_->Load(*added, path, probe, [this, index = *added, done](const auto& loaded) {
    Tried(*index, loaded);
    if (!loaded.ok()) Remove(*index);
    done(loaded);
  });
}

void Server::Swap(const std::string& name, std::string path, const Probe& probe,
                  const Loader::Done& done) {
  const absl::StatusOr<std::shared_ptr<ServedIndex>> found = Find(name);
  if (!found.ok()) return done(found.status());
  if (path.empty()) path = (*found)->facts().path;
  indexes_->Load(*found, path, probe, [this, index = *found, done](const auto& loaded) {
    Tried(*index, loaded);
    done(loaded);
  });
}

absl::Status Server::Unload(const std::string& name) {
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<ServedIndex> index, Find(name));
  Remove(*index);
  spdlog::info("index {}: unloaded", name);
  return absl::OkStatus();
}

void Server::Remove(const ServedIndex& index) {
  indexes_->Close(registry_->Remove(index));
  PublishHealth();
}

void Server::PublishHealth() {
  const std::lock_guard lock(health_mutex_);
  grpc::HealthCheckServiceInterface& health = *server_->GetHealthCheckService();
  bool any = false;
  std::set<std::string> names;
  for (const auto& [alias, index] : registry_->aliases()) names.insert(alias);
  for (const auto& index : registry_->indexes()) names.insert(index->name());
  published_.merge(std::set<std::string>(names));
  for (const std::string& name : published_) {
    const auto index = registry_->Named(name);
    const bool serving = index != nullptr && index->state() == IndexState::kServing;
    health.SetServingStatus(HealthName(name), serving);
    any = any || serving;
  }
  published_ = std::move(names);  // gRPC keeps the entries of other names
  health.SetServingStatus(kServiceName, any);
  // Load balancers and Kubernetes ask for "" unless they are set up otherwise, and one
  // bad index must not keep the others from being reached.
  health.SetServingStatus("", any);
}

void Server::Withdrawn(const ServedIndex& index) {
  PublishHealth();
  spdlog::error("index {}: {}", index.name(), std::string(index.failure().message()));
}

/// Logs each error once, and a success if it brought something or was requested.
void Server::Report(const char* what, const absl::StatusOr<bool>& changed, bool requested) {
  const std::lock_guard lock(report_mutex_);
  const bool news = std::exchange(reported_[what], changed.status()) != changed.status();
  if (changed.ok()) reported_.erase(what);
  if (changed.ok() && (*changed || requested)) {
    spdlog::info("{}: read again, {}", what, *changed ? "changed" : "not changed");
  } else if (!changed.ok() && (news || requested)) {
    failed_reloads_.fetch_add(1);
    spdlog::error("{}: not accepted, those read before stay in force: {}", what,
                  std::string(changed.status().message()));
  }
}

void Server::ReloadFiles(bool requested) {
  if (tokens_ != nullptr) Report("tokens", tokens_->Reload(), requested);
  if (tls_ != nullptr) {
    const absl::StatusOr<bool> changed = tls_->Reload();
    Report("TLS files", changed, requested);
    if (changed.ok() && *changed) WarnOfExpiry(tls_->expires());
  }
}

void Server::ReloadTuned(bool requested) {
  for (const auto& index : registry_->indexes()) {
    const absl::StatusOr<bool> changed = index->ReloadTuned(requested);
    Report(absl::StrCat("index ", index->name(), ": tuned table").c_str(), changed, requested);
  }
}

void Server::WatchCalls() {
  for (; !stop_.load(); std::this_thread::sleep_for(kOften)) {
    if (drain_.exchange(false)) BeginDrain();
    reconciler_->Tick();
    if (configure_ && !configuring_.exchange(true)) {
      configure_.store(false);
      const auto configure = [this] {
        Configure();
        configuring_.store(false);
      };
      if (!indexes_->Run(false, configure).ok()) configuring_.store(false);
    }
    unread_->Lend(UnreadRequests::Clock::now());
    service_->LookIn();
    replies_->CancelLate(ReplyWatch::Clock::now());
  }
}

/// Has a thread of its own, since a file may lie on storage that hangs.
void Server::WatchFiles() {
  constexpr int kDay = 86400 * kSecond;
  for (int turn = 1; !stop_.load(); turn = turn % kDay + 1) {
    std::this_thread::sleep_for(kOften);
    const bool requested = reload_.exchange(false);
    if (requested) reload_tuned_.store(true);
    if (requested || turn % kSecond == 0) ReloadFiles(requested);
    if (turn == kDay && tls_ != nullptr) WarnOfExpiry(tls_->expires());
  }
}

/// Has another one, so that tokens do not wait for the storage of an index.
void Server::WatchIndexes() {
  for (int turn = 1; !stop_.load(); turn = turn % kSecond + 1) {
    std::this_thread::sleep_for(kOften);
    const bool requested = reload_tuned_.exchange(false);
    if (requested || turn == kSecond) ReloadTuned(requested);
    // malloc keeps freed blocks between others. Where little is left, they go back: a
    // guess.
    if (turn == kSecond && UsableMemoryBytes() < 4 * options_.most_bytes) malloc_trim(0);
    for (const auto& index : registry_->indexes()) {
      if (turn == kSecond) index->LookAtCollection();
      if (index->WithdrawIfChanged()) Withdrawn(*index);
      if (!index->WantsCheck()) continue;
      const auto check = [this, index] {
        if (index->WithdrawIfDamaged()) Withdrawn(*index);
      };
      if (!indexes_->Run(true, check).ok()) check();  // no thread: a slow look is better
    }
  }
}

std::optional<absl::Status> Server::Loaded() const {
  if (!reconciler_->tried()) return std::nullopt;
  std::vector<std::string> reasons;
  for (const auto& index : registry_->indexes()) {
    if (index->state() == IndexState::kServing) return absl::OkStatus();
    reasons.push_back(absl::StrCat(index->name(), ": ", index->failure().message()));
  }
  return FailedPrecondition("no index could be loaded: ", absl::StrJoin(reasons, "; "));
}

void Server::BeginDrain() {
  const std::lock_guard lock(drain_mutex_);
  draining_.store(true);
  if (server_ != nullptr) server_->GetHealthCheckService()->Shutdown();
  if (acceptor_ != nullptr) acceptor_->Stop();
}

/// gRPC cuts off calls that arrive during its shutdown, and clients see CANCELLED, as if
/// they had cancelled. So the server refuses calls first, and closes each connection at a
/// moment when it has none. Calls on it are then UNAVAILABLE, which clients understand.
/// Returns when all are closed and nothing was refused for a moment, after `most` at the
/// latest.
void Server::RefuseUntilQuiet(std::chrono::nanoseconds most) {
  constexpr std::chrono::milliseconds kPause(1), kQuiet(50);
  service_->Stop();
  const auto end = std::chrono::steady_clock::now() + most;
  auto quiet_from = std::chrono::steady_clock::now();
  for (std::uint64_t before = service_->refused(); std::chrono::steady_clock::now() < end;) {
    const std::size_t left = guard_ == nullptr ? 0 : guard_->CloseIdle();
    const std::uint64_t now = service_->refused();
    if (std::exchange(before, now) != now || left > 0)
      quiet_from = std::chrono::steady_clock::now();
    if (std::chrono::steady_clock::now() - quiet_from >=
        std::min<std::chrono::nanoseconds>(kQuiet, most))
      return;
    std::this_thread::sleep_for(kPause);
  }
}

void Server::Shutdown(std::chrono::nanoseconds grace) {
  stop_.store(true);
  if (service_ != nullptr) RefuseUntilQuiet(grace * 3 / 4);
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + grace / 4);
  indexes_->Stop();
  if (watcher_.joinable()) watcher_.join();
  if (file_watcher_.joinable()) file_watcher_.join();
  if (index_watcher_.joinable()) index_watcher_.join();
  if (scrubber_ != nullptr) scrubber_->Stop();
}

void Server::CancelCalls() {
  if (server_ != nullptr) grpc_server_cancel_all_calls(server_->c_server());
}

}  // namespace hmann::server
