#include "server/admin.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "index/base/clock.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"
#include "server/calls/grpc_status.h"
#include "server/convert.h"
#include "server/core/errors.h"
#include "server/core/tokens.h"
#include "server/server.h"
#include "server/service.h"

namespace hmann::server {
namespace {

/// A call that ends when a load does, or its client goes. It is owned by gRPC and by the
/// load.
class LoadCall : public grpc::ServerUnaryReactor {
 public:
  static std::shared_ptr<LoadCall> Start(grpc::CallbackServerContext* context,
                                         v1::LoadResponse* response, Metrics* metrics) {
    std::shared_ptr<LoadCall> call(new LoadCall(context, response, metrics));
    call->self_ = call;
    return call;
  }

  void End(const absl::StatusOr<Snapshot>& loaded) {
    if (ended_.exchange(true)) return;
    if (loaded.ok()) {
      response_.set_generation(loaded->generation().number());
      response_.set_content_hash(loaded->Describe().content_hash);
      response_.set_seconds(loaded->generation().load_seconds());
    }
    metrics_.Ended(Method::kAdmin, nullptr, loaded.status(), Clock::now() - began_, 0);
    Finish(EndOf(loaded.status(), &context_));
  }
  void OnCancel() override { End(absl::CancelledError("the call ended; the load goes on")); }
  void OnDone() override { const std::shared_ptr<LoadCall> last = std::move(self_); }

 private:
  using Clock = std::chrono::steady_clock;

  LoadCall(grpc::CallbackServerContext* context, v1::LoadResponse* response, Metrics* metrics)
      : context_(*context), response_(*response), metrics_(*metrics) {}

  grpc::CallbackServerContext& context_;  // this and the next: until it has ended
  v1::LoadResponse& response_;
  Metrics& metrics_;
  const Clock::time_point began_ = Clock::now();
  std::atomic<bool> ended_{false};
  std::shared_ptr<LoadCall> self_;  // until OnDone
};

/// Errors: INVALID_ARGUMENT naming the option.
absl::StatusOr<OpenOptions> ReadOptions(const v1::LoadOptions& wire, OpenOptions open) {
  if (!wire.fast().empty()) open.fast = wire.fast();
  if (!wire.slow().empty()) open.slow = wire.slow();
  if (!wire.cache().empty()) {
    HMANN_ASSIGN_OR_RETURN(open.cache, ParseCachePolicy(wire.cache()));
  }
  if (wire.cache_bytes() > 0) open.cache_bytes = wire.cache_bytes();
  if (wire.has_sq_bits()) open.sq_bits = wire.sq_bits();
  return open;
}

/// The file that a tier names; empty: none. A tier from outside may name one.
std::string FileOf(const std::string& tier) {
  const std::size_t colon = tier.find(':');
  if (colon == std::string::npos || tier.starts_with("numa:") || tier.starts_with("emulated:"))
    return "";
  return tier.substr(colon + 1);
}

Probe ReadProbe(const v1::Probe& wire) {
  constexpr std::uint64_t kMostUs = 1000000000000;
  Probe probe{.queries = wire.queries(),
              .groundtruth = wire.groundtruth(),
              .recall = wire.recall(),
              .p99 = std::chrono::microseconds(std::min(wire.p99_us(), kMostUs))};
  if (wire.k() > 0) probe.k = wire.k();
  return probe;
}

void Describe(ServedIndex& index, v1::IndexStatus* wire) {
  const ServedFacts facts = index.facts();
  Summarize(index, wire->mutable_summary());
  wire->set_path(Utf8(facts.path));
  if (const absl::StatusOr<Snapshot> now = index.Get(); now.ok()) {
    wire->set_content_hash(now->Describe().content_hash);
    wire->set_load_seconds(now->generation().load_seconds());
    if (now->moment() != nullptr) DescribeCollection(*now, wire->mutable_collection());
  }
  wire->set_swaps(facts.swaps);
  wire->set_refused_loads(facts.refusals);
  wire->set_refusal(Utf8(facts.refusal.message()));
  if (facts.loading == nullptr) return;
  const Progress::State at = facts.loading->progress.Now();
  v1::Loading& loading = *wire->mutable_loading();
  loading.set_path(Utf8(facts.loading->path));
  loading.set_seconds(SecondsSince(facts.loading->began));
  loading.set_phase(Utf8(at.phase));
  loading.set_done(at.done);
  loading.set_total(at.total);
  loading.set_unit(at.unit);
  loading.set_share(facts.loading->progress.Share());
}

}  // namespace

absl::Status AdminService::Check(Access& access, const std::string& index,
                                 std::initializer_list<std::string> files) {
  HMANN_RETURN_IF_ERROR(access.Check(Role::kAdmin, index));
  if (access.CheckAll(Role::kAdmin).ok()) return absl::OkStatus();
  const bool all = std::all_of(files.begin(), files.end(), [&](const std::string& file) {
    return file.empty() || server_.InFolderOf(index, file);
  });
  return all ? absl::OkStatus() : PathNotPermitted(index);
}

template <typename Work>
grpc::ServerUnaryReactor* AdminService::Answer(grpc::CallbackServerContext* context,
                                               const Work& work) {
  const auto began = std::chrono::steady_clock::now();
  absl::StatusOr<Access> access = search_.MayAdminister(*context);
  const absl::Status status = access.ok() ? work(*access) : access.status();
  metrics_.Ended(Method::kAdmin, nullptr, status, std::chrono::steady_clock::now() - began, 0);
  return Reply(context, status);
}

grpc::ServerUnaryReactor* AdminService::ExactSearch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* reply) {
  return search_.SearchExactly(context, request, reply);
}

grpc::ServerUnaryReactor* AdminService::Load(grpc::CallbackServerContext* context,
                                             const v1::LoadRequest* request,
                                             v1::LoadResponse* response) {
  const std::shared_ptr<LoadCall> call = LoadCall::Start(context, response, &metrics_);
  const auto load = [&]() -> absl::Status {
    HMANN_ASSIGN_OR_RETURN(Access access, search_.MayAdminister(*context));
    HMANN_RETURN_IF_ERROR(Check(
        access, request->index(),
        {request->path(), FileOf(request->options().fast()), FileOf(request->options().slow()),
         request->probe().queries(), request->probe().groundtruth()}));
    HMANN_ASSIGN_OR_RETURN(OpenOptions open, ReadOptions(request->options(), server_.open()));
    server_.Load({request->index(), request->path(), std::move(open)}, ReadProbe(request->probe()),
                 [call](const auto& loaded) { call->End(loaded); });
    return absl::OkStatus();
  };
  if (const absl::Status status = load(); !status.ok()) call->End(status);
  return call.get();
}

grpc::ServerUnaryReactor* AdminService::Swap(grpc::CallbackServerContext* context,
                                             const v1::SwapRequest* request,
                                             v1::LoadResponse* response) {
  const std::shared_ptr<LoadCall> call = LoadCall::Start(context, response, &metrics_);
  const auto swap = [&]() -> absl::Status {
    HMANN_ASSIGN_OR_RETURN(Access access, search_.MayAdminister(*context));
    HMANN_RETURN_IF_ERROR(
        Check(access, request->index(),
              {request->path(), request->probe().queries(), request->probe().groundtruth()}));
    server_.Swap(request->index(), request->path(), ReadProbe(request->probe()),
                 [call](const auto& loaded) { call->End(loaded); });
    return absl::OkStatus();
  };
  if (const absl::Status status = swap(); !status.ok()) call->End(status);
  return call.get();
}

grpc::ServerUnaryReactor* AdminService::Unload(grpc::CallbackServerContext* context,
                                               const v1::UnloadRequest* request,
                                               v1::UnloadResponse*) {
  return Answer(context, [&](Access& access) {
    const absl::Status may = access.Check(Role::kAdmin, request->index());
    return may.ok() ? server_.Unload(request->index()) : may;
  });
}

grpc::ServerUnaryReactor* AdminService::Status(grpc::CallbackServerContext* context,
                                               const v1::StatusRequest* request,
                                               v1::StatusResponse* response) {
  return Answer(context, [&](Access& access) -> absl::Status {
    if (!request->index().empty()) {
      HMANN_RETURN_IF_ERROR(access.Check(Role::kAdmin, request->index()));
      HMANN_ASSIGN_OR_RETURN(const auto one, server_.registry().Find(request->index()));
      Describe(*one, response->add_indexes());
      return absl::OkStatus();
    }
    for (const auto& index : server_.registry().indexes()) {
      if (access.Check(Role::kAdmin, index->name()).ok()) Describe(*index, response->add_indexes());
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::Drain(grpc::CallbackServerContext* context,
                                              const v1::DrainRequest*, v1::DrainResponse*) {
  return Answer(context, [this](Access& access) {
    const absl::Status may = access.CheckAll(Role::kAdmin);
    if (may.ok()) server_.RequestDrain();
    return may;
  });
}

}  // namespace hmann::server
