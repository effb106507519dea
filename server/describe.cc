// Describes the indexes of a server.
#include "absl/status/status.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"
#include "proto/wire.h"
#include "server/calls/grpc_status.h"
#include "server/convert.h"
#include "server/core/errors.h"
#include "server/service.h"

namespace hmann::server {

void DescribeCollection(const Snapshot& index, v1::Collection* wire) {
  const CollectionInfo info = index.generation().collection()->info();
  wire->set_sequence(info.sequence);
  wire->set_covered(info.covered);
  wire->set_delta_rows(info.delta_rows);
  wire->set_dead_rows(info.sealed_dead);
  wire->set_delta_bytes(info.delta_bytes);
  wire->set_journal_bytes(info.journal_bytes);
  wire->set_unmerged_seconds(info.unmerged_seconds);
  wire->set_merges(info.merges);
  wire->set_merge_seconds(info.merge_seconds);
  wire->set_merging_seconds(info.merging_seconds);
  wire->set_merge_phase(info.merge_phase);
  wire->set_merge_done(info.merge_done);
  wire->set_merge_total(info.merge_total);
  wire->set_last_error(Utf8(WithoutFolder(info.last_error, index.generation().path())));
  if (info.behind_seconds.has_value()) wire->set_behind_seconds(*info.behind_seconds);
}

void Summarize(ServedIndex& served, v1::IndexSummary* summary) {
  summary->set_name(served.name());
  const absl::StatusOr<Snapshot> index = served.Get();
  if (index.ok()) {
    const IndexInfo& info = index->info();
    summary->set_state(v1::INDEX_STATE_SERVING);
    summary->set_n(index->rows());
    summary->set_dim(info.dim);
    summary->set_dtype(ToWire(info.dtype));
    summary->set_metric(ToWire(info.metric));
    summary->set_generation(index->generation().number());
  } else if (absl::IsUnavailable(index.status())) {
    summary->set_state(v1::INDEX_STATE_LOADING);
  } else {
    const ServedFacts facts = served.facts();
    summary->set_state(v1::INDEX_STATE_FAILED);
    summary->set_reason(Utf8(WithoutFolder(facts.failure, facts.path).message()));
  }
}

grpc::ServerUnaryReactor* SearchService::Describe(grpc::CallbackServerContext* context,
                                                  const v1::DescribeRequest* request,
                                                  v1::DescribeResponse* response) {
  const auto began = QueuedRequest::Clock::now();
  std::shared_ptr<ServedIndex> named;
  const auto describe = [&]() -> absl::Status {
    const Role needed = request->where() ? Role::kAdmin : Role::kRead;
    HMANN_ASSIGN_OR_RETURN(Access access, Authorized(*context, needed));
    HMANN_RETURN_IF_ERROR(access.Check(needed, request->index()));
    named = serving_.registry.Named(request->index());
    HMANN_ASSIGN_OR_RETURN(const Snapshot index, serving_.registry.Get(request->index()));
    response->set_index(index.served().name());
    response->set_generation(index.generation().number());
    ToWire(index.Describe(), response->mutable_info());
    for (const Placement& placement : index.generation().Placements(request->where())) {
      v1::Placement& wire = *response->add_placements();
      wire.set_structure(placement.structure);
      wire.set_tier(Utf8(placement.tier));
      if (request->where()) wire.set_where(Utf8(placement.where));
      wire.set_bytes(placement.bytes);
    }
    HMANN_ASSIGN_OR_RETURN(
        const Kernels kernels,
        ChooseKernels(index.info().dtype, index.info().metric, index.info().dim));
    if (index.moment() != nullptr) DescribeCollection(index, response->mutable_collection());
    response->set_simd(std::string(kernels.simd));
    response->set_threads(static_cast<std::uint32_t>(serving_.pool.threads()));
    v1::Limits* limits = response->mutable_limits();
    limits->set_max_batch(serving_.limits.max_batch);
    limits->set_max_k(serving_.limits.max_k);
    limits->set_max_ef(serving_.limits.max_ef);
    limits->set_max_query_threads(serving_.limits.max_query_threads);
    limits->set_max_request_bytes(max_request_bytes_);
    limits->set_max_reply_bytes(serving_.limits.max_reply_bytes);
    return absl::OkStatus();
  };
  const absl::Status status = describe();
  serving_.metrics.Ended(Method::kDescribe, named.get(), status,
                         QueuedRequest::Clock::now() - began, 0);
  return Finished(context, status, status.ok() ? response->ByteSizeLong() : 0);
}

grpc::ServerUnaryReactor* SearchService::List(grpc::CallbackServerContext* context,
                                              const v1::ListRequest*, v1::ListResponse* response) {
  const auto began = QueuedRequest::Clock::now();
  absl::StatusOr<Access> access = Authorized(*context, Role::kRead);
  if (!access.ok()) {
    serving_.metrics.Ended(Method::kList, nullptr, access.status(), {}, 0);
    return Reply(context, access.status());
  }
  for (const auto& served : serving_.registry.indexes()) {
    if (access->Check(Role::kRead, served->name()).ok())
      Summarize(*served, response->add_indexes());
  }
  serving_.metrics.Ended(Method::kList, nullptr, absl::OkStatus(),
                         QueuedRequest::Clock::now() - began, 0);
  return Finished(context, absl::OkStatus(), response->ByteSizeLong());
}

}  // namespace hmann::server
