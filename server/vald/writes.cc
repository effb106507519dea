#include <chrono>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hmann/collection.h"
#include "index/base/errors.h"
#include "server/calls/raw_message.h"
#include "server/core/errors.h"
#include "server/vald/service.h"
#include "server/vald/works.h"

namespace hmann::server {
namespace {

namespace wire = ::payload::v1;

/// After which a write that found no room may come again: a guess.
constexpr std::chrono::seconds kTryAgain(1);

/// The condition for which a request has a name of its own.
template <typename Part>
constexpr WriteBatch::If When() {
  if (std::is_same_v<Part, wire::Insert_Request>) return WriteBatch::If::kAbsent;
  if (std::is_same_v<Part, wire::Upsert_Request>) return WriteBatch::If::kAny;
  return WriteBatch::If::kPresent;
}

template <typename Part>
absl::Status AddChange(const Part& part, std::size_t i, std::size_t parts, const Snapshot& index,
                       WriteBatch* batch, wire::Object_Location* location) {
  if constexpr (std::is_same_v<Part, wire::Remove_Request>) {
    HMANN_ASSIGN_OR_RETURN(const VectorLabel label, LabelOf(part.id().id(), index));
    batch->Delete(label, When<Part>());
    location->set_uuid(part.id().id());
  } else {
    const wire::Object_Vector& vector = part.vector();
    HMANN_ASSIGN_OR_RETURN(const VectorLabel label, LabelOf(vector.id(), index));
    HMANN_ASSIGN_OR_RETURN(
        const QueryVectors row,
        VectorsOf({vector.vector().data(), static_cast<std::size_t>(vector.vector_size())},
                  index.info(), 1, FieldOf("vector", i, parts)));
    batch->Put(label, row.row(0), row.bytes.size(), {}, When<Part>());
    location->set_uuid(vector.id());
  }
  location->set_name(index.served().name());
  return absl::OkStatus();
}

/// Makes the changes of a request, all or none.
template <typename Request>
absl::Status Change(const Request& request, const Snapshot& index, const RequestLimits& limits,
                    wire::Object_Locations* locations) {
  const auto parts = Parts(request);
  if (parts.empty() || parts.size() > limits.max_batch) {
    return BadField("requests",
                    absl::StrCat("expected 1 to ", limits.max_batch, ", found ", parts.size()));
  }
  WriteBatch batch;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    HMANN_RETURN_IF_ERROR(
        AddChange(*parts[i], i, parts.size(), index, &batch, locations->add_locations()));
  }
  absl::Status status = index.generation().collection()->Write(batch).status();
  // "label 7: no vector ..."
  if (absl::IsNotFound(status) || absl::IsAlreadyExists(status)) status = UnknownLabel(status);
  return index.ForClients(OfWrite(status, kTryAgain));
}

/// Vald replaces whole vectors.
template <typename Request>
constexpr Method kMethodOf = std::is_same_v<Request, wire::Remove_Request> ||
                                     std::is_same_v<Request, wire::Remove_MultiRequest>
                                 ? Method::kDelete
                                 : Method::kPut;

}  // namespace

template <typename Request>
void ValdService::Write(AnyCall* call, Access& access, const grpc::ByteBuffer& bytes) {
  struct Pending {
    Request request;
    Snapshot index;
    QueuedRequest::Clock::time_point began = QueuedRequest::Clock::now();
  };
  const auto pending = std::make_shared<Pending>();
  const auto work = [this, call, pending] {
    wire::Object_Locations locations;
    absl::Status status =
        Change(pending->request, pending->index, calls_.serving().limits, &locations);
    if (status.ok()) {
      status = kIsMulti<Request> ? hmann::server::Write(locations, call->reply())
                                 : hmann::server::Write(locations.locations(0), call->reply());
    }
    const int rows = status.ok() ? locations.locations_size() : 0;
    calls_.serving().metrics.Ended(kMethodOf<Request>, &pending->index.served(), status,
                                   QueuedRequest::Clock::now() - pending->began,
                                   static_cast<std::size_t>(rows));
    call->End(status);
  };
  const auto start = [&]() -> absl::Status {
    HMANN_RETURN_IF_ERROR(Read(bytes, &pending->request));
    HMANN_RETURN_IF_ERROR(access.Check(Role::kWrite, index()));
    HMANN_ASSIGN_OR_RETURN(pending->index, calls_.serving().registry.Get(index()));
    if (pending->index.moment() == nullptr)
      return absl::UnimplementedError(NotACollection(index()).message());
    return writers_.Submit(pending->index.generation().number(), work);
  };
  if (const absl::Status status = start(); !status.ok())
    call->Refuse(status, calls_.serving().registry.Named(index()).get());
}

template <typename Request, typename MultiRequest>
void ValdService::AddWrites(const std::string& name) {
  const std::string service = absl::StrCat("vald.v1.", name);
  const auto begin = [this](auto write) { return std::bind_front(write, this); };
  Add(service, name, kMethodOf<Request>, begin(&ValdService::Write<Request>),
      absl::StrCat("Stream", name));
  Add(service, absl::StrCat("Multi", name), kMethodOf<MultiRequest>,
      begin(&ValdService::Write<MultiRequest>));
}

void ValdService::AddWrites() {
  AddWrites<wire::Insert_Request, wire::Insert_MultiRequest>("Insert");
  AddWrites<wire::Update_Request, wire::Update_MultiRequest>("Update");
  AddWrites<wire::Upsert_Request, wire::Upsert_MultiRequest>("Upsert");
  AddWrites<wire::Remove_Request, wire::Remove_MultiRequest>("Remove");
}

}  // namespace hmann::server
