#include "server/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/tiers/tier.h"
#include "server/acceptor.h"
#include "server/convert.h"
#include "server/health.h"
#include "server/registry.h"
#include "server/search_pool.h"
#include "server/service.h"
#include "spdlog/spdlog.h"

namespace hmann {
namespace {

constexpr char kServiceName[] = "hmann.v1.Search";

std::string HealthName(const std::string& index) { return absl::StrCat("hmann.index.", index); }

/// The largest dimension among the indexes whose headers can be read, so that their
/// batches fit into a message.
std::uint32_t LargestDim(const std::vector<IndexSpec>& specs) {
  std::uint32_t dim = 0;
  for (const IndexSpec& spec : specs) {
    if (const absl::StatusOr<IndexInfo> info = ReadInfo(spec.path); info.ok())
      dim = std::max(dim, info->dim);
  }
  return dim;
}

ServerOptions Resolve(ServerOptions options) {
  if (options.threads == 0) {
    // Threads that wait for a device leave their core to others.
    const absl::StatusOr<std::unique_ptr<Tier>> slow = MakeTier(options.open.slow);
    options.threads = UsableCores() * (slow.ok() && !(*slow)->traits().addressable ? 8 : 1);
  }
  if (options.limits.max_query_threads == 0)
    options.limits.max_query_threads = static_cast<std::uint32_t>(std::min(options.threads, 64));
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  std::unique_ptr<Server> server(new Server(Resolve(options)));
  HMANN_RETURN_IF_ERROR(server->Listen());
  server->loader_ = std::thread([raw = server.get()] { raw->Load(); });
  server->watcher_ = std::thread([raw = server.get()] { raw->Watch(); });
  return server;
}

Server::Server(const ServerOptions& options)
    : options_(options),
      registry_(std::make_unique<Registry>(options.indexes)),
      pool_(std::make_unique<SearchPool>(
          options.threads, PoolBounds{options.queue, options.most_bytes, options.most_work})),
      health_(std::make_unique<HealthService>()) {}

Server::~Server() {
  BeginDrain();
  Shutdown(std::chrono::nanoseconds::zero());
}

absl::Status Server::Listen() {
  const std::uint64_t max_request_bytes =
      MaxRequestBytes(LargestDim(options_.indexes), options_.limits);
  service_ = std::make_unique<SearchService>(registry_.get(), pool_.get(), options_.limits,
                                             max_request_bytes, options_.default_deadline);
  health_->Register("");
  health_->Register(kServiceName);
  for (const IndexSpec& spec : options_.indexes) health_->Register(HealthName(spec.name));

  grpc::EnableDefaultHealthCheckService(false);
  if (options_.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options_.most_streams));
  builder.SetMaxReceiveMessageSize(static_cast<int>(max_request_bytes));
  HMANN_ASSIGN_OR_RETURN(acceptor_, Acceptor::Listen(options_.listen));
  connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  builder.RegisterService(health_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr)
    return absl::InternalError(absl::StrCat("listen ", options_.listen, ": gRPC did not start"));
  acceptor_->Start([this](int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    connections_->HandleNewConnection(&parameters);
  });
  return absl::OkStatus();
}

int Server::port() const { return acceptor_->port(); }

std::string Server::address() const {
  return absl::StrCat(options_.listen.substr(0, options_.listen.rfind(':')), ":", port());
}

void Server::Load() {
  bool all = true;
  for (const auto& index : registry_->indexes()) {
    if (stop_.load()) {
      index->Fail(absl::CancelledError("the server shuts down"));
      all = false;
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    if (const absl::Status status = index->Load(options_.open); !status.ok()) {
      all = false;
      spdlog::error("index {}: {}", index->name(), status.ToString());
      continue;
    }
    const double seconds = SecondsSince(start);
    const IndexInfo& info = (*index->Get())->info();
    spdlog::info("index {}: {} vectors of {} components, ready after {:.3f} s", index->name(),
                 info.n, info.dim, seconds);
    health_->Set(HealthName(index->name()), true);
    health_->Set(kServiceName, true);
  }
  if (all) health_->Set("", true);
  const std::lock_guard lock(mutex_);
  loaded_ = true;
  loaded_changed_.notify_all();
}

void Server::Watch() {
  constexpr std::chrono::milliseconds kOften(20);
  constexpr int kSeldom = 1500;  // times kOften: 30 s
  for (int turn = 1; !stop_.load(); ++turn) {
    std::this_thread::sleep_for(kOften);
    bool any = false, withdrawn = false;
    for (const auto& index : registry_->indexes()) {
      if (index->WithdrawIfChanged()) {
        withdrawn = true;
        health_->Set(HealthName(index->name()), false);
        spdlog::error("index {}: {}", index->name(), std::string(index->failure().message()));
      }
      if (index->state() != IndexState::kServing) continue;
      any = true;
      if (turn % kSeldom == 0) index->RefreshPlacements();
    }
    if (!withdrawn) continue;
    health_->Set("", false);
    if (!any) health_->Set(kServiceName, false);
  }
}

absl::Status Server::WaitLoaded() {
  {
    std::unique_lock lock(mutex_);
    loaded_changed_.wait(lock, [this] { return loaded_; });
  }
  std::vector<std::string> reasons;
  for (const auto& index : registry_->indexes()) {
    if (index->state() == IndexState::kServing) return absl::OkStatus();
    reasons.push_back(absl::StrCat(index->name(), ": ", index->failure().message()));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no index could be loaded: ", absl::StrJoin(reasons, "; ")));
}

void Server::BeginDrain() {
  health_->BeginDrain();
  if (acceptor_ != nullptr) acceptor_->Stop();
}

/// gRPC cuts off calls that arrive while it shuts down, and clients see CANCELLED, as if
/// they had done it; so those are refused by us first.
void Server::RefuseUntilQuiet(std::chrono::nanoseconds most) {
  constexpr std::chrono::milliseconds kQuiet(50);
  service_->Stop();
  const auto end = std::chrono::steady_clock::now() + most;
  for (std::uint64_t before = 0, now = 1;
       before != now && std::chrono::steady_clock::now() < end;) {
    before = service_->refused();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(kQuiet, most));
    now = service_->refused();
  }
}

void Server::Shutdown(std::chrono::nanoseconds grace) {
  stop_.store(true);
  if (service_ != nullptr) RefuseUntilQuiet(grace / 2);
  health_->EndWatches();
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + grace);
  if (loader_.joinable()) loader_.join();
  if (watcher_.joinable()) watcher_.join();
}

void Server::CancelCalls() {
  if (server_ != nullptr) grpc_server_cancel_all_calls(server_->c_server());
}

}  // namespace hmann
