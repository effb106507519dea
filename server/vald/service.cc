#include "server/vald/service.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "google/rpc/status.pb.h"
#include "server/calls/raw_message.h"
#include "server/calls/stream_of_calls.h"
#include "server/core/errors.h"
#include "server/vald/works.h"

namespace hmann::server {
namespace {

namespace wire = ::payload::v1;

template <typename Request>
using Searching = ByVectors<UnaryWork<QueryRequest>, Request>;

/// The names that Vald's NGT has for these.
const char* NameOf(DType dtype) {
  constexpr const char* kNames[] = {"Float", "Float16", "Uint8", "Int8"};
  return kNames[dtype == DType::kF32 ? 0 : dtype == DType::kF16 ? 1 : dtype == DType::kU8 ? 2 : 3];
}
const char* NameOf(Metric metric) {
  return metric == Metric::kL2 ? "L2" : metric == Metric::kCosine ? "Cosine" : "InnerProduct";
}

}  // namespace

grpc::ByteBuffer ValdStreamed(const absl::Status& status, const grpc::ByteBuffer& reply) {
  wire::Streamed streamed;
  if (status.ok()) {
    grpc::Slice slice;
    reply.DumpToSingleSlice(&slice).IgnoreError();
    streamed.set_message(slice.begin(), slice.size());
  } else {
    const grpc::Status end = ToGrpc(status);
    google::rpc::Status plain;
    plain.set_code(end.error_code());
    plain.set_message(end.error_message());
    streamed.set_status(end.error_details().empty() ? plain.SerializeAsString()
                                                    : end.error_details());
  }
  grpc::ByteBuffer bytes;
  Write(streamed, &bytes).IgnoreError();  // it fails for lack of memory only
  return bytes;
}

void ValdService::Add(absl::string_view service, absl::string_view name, Method method,
                      const Calls::Begin& begin, absl::string_view stream) {
  methods_[absl::StrCat("/", service, "/", name)] = {method, begin};
  if (!stream.empty()) methods_[absl::StrCat("/", service, "/", stream)] = {method, begin, true};
}

template <typename Work>
Calls::Begin ValdService::Of() {
  return [this](AnyCall* call, Access& access, const grpc::ByteBuffer& bytes) {
    calls_.BeginWork<Work>(call, access, bytes);
  };
}

template <typename Request, typename Response>
Calls::Begin ValdService::Telling(absl::Status (ValdService::*tell)(const Request&, Response*)
                                      const) {
  return [this, tell](AnyCall* call, Access& access, const grpc::ByteBuffer& bytes) {
    const auto began = QueuedRequest::Clock::now();
    const auto answer = [&]() -> absl::Status {
      Request request;
      Response response;
      HMANN_RETURN_IF_ERROR(Read(bytes, &request));
      HMANN_RETURN_IF_ERROR(access.Check(Role::kRead, index()));
      HMANN_RETURN_IF_ERROR((this->*tell)(request, &response));
      return hmann::server::Write(response, call->reply());
    };
    const absl::Status status = answer();
    const Serving& serving = calls_.serving();
    serving.metrics.Ended(Method::kDescribe, serving.registry.Named(index()).get(), status,
                          QueuedRequest::Clock::now() - began, 0);
    call->End(status);
  };
}

ValdService::ValdService(Calls* calls, Writers* writers, Loader* loader,
                         std::vector<std::string> agents)
    : calls_(*calls), writers_(*writers), loader_(*loader), agents_(std::move(agents)) {
  const char* service = "vald.v1.Search";
  Add(service, "Search", Method::kSearch, Of<Searching<wire::Search_Request>>(), "StreamSearch");
  Add(service, "MultiSearch", Method::kSearchBatch, Of<Searching<wire::Search_MultiRequest>>());
  Add(service, "SearchByID", Method::kGet, Of<ByIds<wire::Search_IDRequest>>(), "StreamSearchByID");
  Add(service, "MultiSearchByID", Method::kGet, Of<ByIds<wire::Search_MultiIDRequest>>());
  service = "vald.v1.Object";
  Add(service, "Exists", Method::kGet, Of<ObjectWork<wire::Object_ID, wire::Object_ID>>());
  Add(service, "GetObject", Method::kGet,
      Of<ObjectWork<wire::Object_VectorRequest, wire::Object_Vector>>(), "StreamGetObject");
  Add(service, "GetTimestamp", Method::kGet,
      Of<ObjectWork<wire::Object_TimestampRequest, wire::Object_Timestamp>>());
  const auto tell = [&](const char* in, const char* name, auto how) {
    Add(in, name, Method::kDescribe, Telling(how));
  };
  tell("vald.v1.Index", "IndexInfo", &ValdService::Count);
  tell("vald.v1.Index", "IndexDetail", &ValdService::Detail);
  tell("vald.v1.Index", "IndexProperty", &ValdService::Property);
  service = "core.v1.Agent";
  tell(service, "IndexInfo", &ValdService::Count);  // of v1.7
  // An acknowledged write is on disk, and its vectors are found at once.
  tell(service, "CreateIndex", &ValdService::Nothing<wire::Control_CreateIndexRequest>);
  tell(service, "SaveIndex", &ValdService::Nothing<wire::Empty>);
  tell(service, "CreateAndSaveIndex", &ValdService::Nothing<wire::Control_CreateIndexRequest>);
  if (!agents_.empty()) {
    tell("discoverer.v1.Discoverer", "Pods", &ValdService::Pods);
    tell("discoverer.v1.Discoverer", "Nodes", &ValdService::Nodes);
  }
  AddWrites();
}

grpc::ServerGenericBidiReactor* ValdService::Begin(grpc::GenericCallbackServerContext* context) {
  if (context->method() == "/vald.v1.Object/StreamListObject") return List(context);
  const auto found = methods_.find(context->method());
  if (found == methods_.end()) return nullptr;
  const Entry& entry = found->second;
  if (!entry.streams)
    return calls_.Unary(context, entry.method, entry.begin,
                        entry.method < Method::kPut && entry.method != Method::kDescribe);
  return calls_.Stream(context, entry.method, [&](Access access) {
    return MakeStreamOfCalls(&calls_, entry.method, entry.begin, ValdStreamed, context,
                             std::move(access));
  });
}

absl::Status ValdService::Count(const wire::Empty&, wire::Info_Index_Count* count) const {
  HMANN_ASSIGN_OR_RETURN(const Snapshot snapshot, calls_.serving().registry.Get(index()));
  count->set_stored(static_cast<std::uint32_t>(snapshot.rows()));
  return absl::OkStatus();
}

absl::Status ValdService::Detail(const wire::Empty& request,
                                 wire::Info_Index_Detail* detail) const {
  detail->set_replica(1);
  detail->set_live_agents(1);
  return Count(request, &(*detail->mutable_counts())[index()]);
}

absl::Status ValdService::Property(const wire::Empty&,
                                   wire::Info_Index_PropertyDetail* detail) const {
  HMANN_ASSIGN_OR_RETURN(const Snapshot snapshot, calls_.serving().registry.Get(index()));
  wire::Info_Index_Property& property = (*detail->mutable_details())[index()];
  property.set_dimension(static_cast<std::int32_t>(snapshot.info().dim));
  property.set_object_type(NameOf(snapshot.info().dtype));
  property.set_distance_type(NameOf(snapshot.info().metric));
  return absl::OkStatus();
}

absl::Status ValdService::Pods(const wire::Discoverer_Request&, wire::Info_Pods* pods) const {
  for (const std::string& agent : agents_) {
    wire::Info_Pod* const pod = pods->add_pods();
    pod->set_name(agent);
    pod->set_ip(agent);
  }
  return absl::OkStatus();
}

absl::Status ValdService::Nodes(const wire::Discoverer_Request& request,
                                wire::Info_Nodes* nodes) const {
  wire::Info_Pods pods;
  HMANN_RETURN_IF_ERROR(Pods(request, &pods));
  for (const wire::Info_Pod& pod : pods.pods()) {
    wire::Info_Node* const node = nodes->add_nodes();
    node->set_name(pod.name());
    node->set_internal_addr(pod.ip());
    *node->mutable_pods()->add_pods() = pod;
  }
  return absl::OkStatus();
}

}  // namespace hmann::server
