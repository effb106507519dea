#include "server/write_service.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hmann/collection.h"
#include "index/base/status_macros.h"
#include "server/convert.h"
#include "server/core/errors.h"
#include "server/core/query.h"
#include "server/raw_message.h"

namespace hmann::server {
namespace {

/// After which a write that found no room may come again: a guess.
constexpr std::chrono::seconds kComeAgain(1);

template <typename Request>
absl::StatusOr<std::vector<VectorLabel>> ReadRows(const Request& request,
                                                  const RequestLimits& limits) {
  std::vector<VectorLabel> rows;
  for (const std::uint64_t label : request.labels()) rows.emplace_back(label);
  for (const std::string& name : request.names()) rows.emplace_back(name);
  if (rows.empty()) return BadField("labels", "expected one or more, found none");
  if (rows.size() > limits.max_batch) {
    return BadField("labels",
                    absl::StrCat("expected at most ", limits.max_batch, ", found ", rows.size()));
  }
  return rows;
}

absl::Status CheckCount(const char* field, std::size_t found, std::size_t rows) {
  if (found == rows) return absl::OkStatus();
  return BadField(field, absl::StrCat("expected ", rows, ", as there are labels, found ", found));
}

absl::StatusOr<Written> Do(const v1::PutRequest& request, const Snapshot& index,
                           const RequestLimits& limits, const std::atomic<bool>&) {
  HMANN_ASSIGN_OR_RETURN(const std::vector<VectorLabel> rows, ReadRows(request, limits));
  HMANN_ASSIGN_OR_RETURN(const QueryVectors vectors,
                         ReadVectors(request.vectors(), index.info(), limits.max_batch, "vectors"));
  HMANN_RETURN_IF_ERROR(CheckCount("vectors", vectors.count, rows.size()));
  const auto attributes = static_cast<std::size_t>(request.attributes_size());
  if (attributes > 0) HMANN_RETURN_IF_ERROR(CheckCount("attributes", attributes, rows.size()));
  const std::size_t bytes = vectors.bytes.size() / vectors.count;
  WriteBatch batch;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string_view text =
        attributes == 0 ? std::string_view() : request.attributes(static_cast<int>(i));
    batch.Put(rows[i], vectors.row(i), bytes, text);
  }
  batch.SetOperation(request.operation());
  return index.generation().collection()->Write(batch);
}

absl::StatusOr<Written> DeleteByFilter(const v1::DeleteRequest& request, const Snapshot& index) {
  Collection& collection = *index.generation().collection();
  const absl::StatusOr<Filter> filter =
      Filter::Parse(request.filter(), ReadArguments(request.filter_arguments()));
  if (!filter.ok()) return BadField("filter", filter.status().message());
  const std::shared_ptr<const Moment> now = collection.Now();
  HMANN_ASSIGN_OR_RETURN(const auto prepared, Prepare(now, {.k = 1}, &*filter));
  if (!request.all() && LiveRows(*now) > 0 && MatchingRows(*prepared) == LiveRows(*now)) {
    return BadField("filter", absl::StrCat("it holds for all ", LiveRows(*now),
                                           " vectors: say `all` if that is meant"));
  }
  return collection.Delete(*filter);
}

absl::StatusOr<Written> Do(const v1::DeleteRequest& request, const Snapshot& index,
                           const RequestLimits& limits, const std::atomic<bool>&) {
  const bool has_labels = request.labels_size() + request.names_size() > 0;
  if (has_labels && (!request.filter().empty() || request.all()))
    return BadField("filter", "expected labels or a filter, found both");
  if (!request.filter().empty()) return DeleteByFilter(request, index);
  if (request.all()) return index.generation().collection()->DeleteAll();
  HMANN_ASSIGN_OR_RETURN(const std::vector<VectorLabel> rows, ReadRows(request, limits));
  WriteBatch batch;
  for (const VectorLabel& row : rows) batch.Delete(row);
  batch.SetOperation(request.operation());
  return index.generation().collection()->Write(batch);
}

absl::StatusOr<Written> Do(const v1::UpdateRequest& request, const Snapshot& index,
                           const RequestLimits& limits, const std::atomic<bool>&) {
  HMANN_ASSIGN_OR_RETURN(const std::vector<VectorLabel> rows, ReadRows(request, limits));
  HMANN_RETURN_IF_ERROR(
      CheckCount("attributes", static_cast<std::size_t>(request.attributes_size()), rows.size()));
  WriteBatch batch;
  for (std::size_t i = 0; i < rows.size(); ++i)
    batch.Update(rows[i], request.attributes(static_cast<int>(i)));
  batch.SetOperation(request.operation());
  return index.generation().collection()->Write(batch);
}

absl::StatusOr<Written> Do(const v1::CompactRequest&, const Snapshot& index, const RequestLimits&,
                           const std::atomic<bool>& cancelled) {
  Progress quiet(Progress::Show::kNever);
  Collection& collection = *index.generation().collection();
  HMANN_RETURN_IF_ERROR(collection.Compact(quiet, &cancelled));
  const CollectionInfo info = collection.info();
  return Written{.sequence = info.covered, .rows = info.sealed_rows};
}

}  // namespace

template <typename Request>
struct WriteService::Pending {
  Request request;
  Snapshot index;
  QueuedRequest::Clock::time_point began = QueuedRequest::Clock::now();
};

template <typename Request>
void WriteService::Start(UnaryCall* call, Access& access, const grpc::ByteBuffer& bytes) {
  const auto pending = std::make_shared<Pending<Request>>();
  const auto start = [&]() -> absl::Status {
    HMANN_RETURN_IF_ERROR(Read(bytes, &pending->request));
    HMANN_RETURN_IF_ERROR(access.Check(Role::kWrite, pending->request.index()));
    HMANN_ASSIGN_OR_RETURN(pending->index, registry_.Get(pending->request.index()));
    if (pending->index.moment() == nullptr) return NotACollection(pending->request.index());
    const auto write = [this, call, pending] { Finish(call, *pending); };
    if constexpr (std::is_same_v<Request, v1::CompactRequest>) return loader_.Run(true, write);
    return writers_.Submit(pending->index.generation().number(), bytes.Length(), write);
  };
  if (const absl::Status status = start(); !status.ok())
    call->Refuse(status, registry_.Named(pending->request.index()).get());
}

template <typename Request>
void WriteService::Finish(UnaryCall* call, Pending<Request>& pending) {
  const absl::StatusOr<Written> written =
      Do(pending.request, pending.index, limits_, call->cancelled());
  absl::Status status = pending.index.ForClients(OfWrite(written.status(), kComeAgain));
  if (status.ok()) {
    v1::WriteResponse response;
    response.set_sequence(written->sequence);
    response.set_rows(written->rows);
    response.set_generation(pending.index.generation().number());
    status = hmann::server::Write(response, call->reply());
  }
  metrics_.Ended(Method::kWrite, &pending.index.served(), status,
                 QueuedRequest::Clock::now() - pending.began, 0);
  call->End(status);
}

WriteService::Begin WriteService::Named(absl::string_view method) {
  if (method == "Put") return &WriteService::Start<v1::PutRequest>;
  if (method == "Delete") return &WriteService::Start<v1::DeleteRequest>;
  if (method == "Update") return &WriteService::Start<v1::UpdateRequest>;
  if (method == "Compact") return &WriteService::Start<v1::CompactRequest>;
  return nullptr;
}

}  // namespace hmann::server
