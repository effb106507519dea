#include "client/cpp/wire.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"
#include "proto/wire.h"

namespace hmann::client {

namespace {

IndexState FromWire(v1::IndexState state) {
  switch (state) {
    case v1::INDEX_STATE_LOADING:
      return IndexState::kLoading;
    case v1::INDEX_STATE_SERVING:
      return IndexState::kServing;
    case v1::INDEX_STATE_FAILED:
      return IndexState::kFailed;
    default:
      return IndexState::kUnknown;
  }
}

/// The human-readable information that a detail adds to the message; empty if there is
/// none.
std::string Describe(const google::protobuf::Any& detail) {
  if (google::rpc::ErrorInfo info; detail.UnpackTo(&info)) return info.reason();
  if (google::rpc::RetryInfo retry; detail.UnpackTo(&retry)) {
    return absl::StrCat(
        "retry after ",
        retry.retry_delay().seconds() * 1000 + retry.retry_delay().nanos() / 1000000, " ms");
  }
  if (google::rpc::ResourceInfo resource; detail.UnpackTo(&resource)) {
    return absl::StrCat(resource.resource_type(), " ", resource.resource_name());
  }
  if (google::rpc::BadRequest bad; detail.UnpackTo(&bad)) {
    return absl::StrJoin(bad.field_violations(), ", ", [](std::string* out, const auto& violation) {
      absl::StrAppend(out, "field ", violation.field());
    });
  }
  return "";
}

}  // namespace

void ToWire(const Vectors& vectors, v1::Vectors* wire) {
  if (vectors.is_raw) {
    wire->set_raw(vectors.raw.data(), vectors.raw.size());
    wire->set_count(vectors.count);
  } else {
    wire->mutable_floats()->mutable_values()->Add(vectors.floats.begin(), vectors.floats.end());
  }
}

namespace {

void AddValue(const FilterValue& value, v1::FilterValues& wire) {
  if (const auto* text = std::get_if<std::string>(&value); text != nullptr) {
    wire.add_texts(*text);
  } else if (const auto* number = std::get_if<double>(&value); number != nullptr) {
    wire.add_numbers(*number);
  } else if (const bool* flag = std::get_if<bool>(&value); flag != nullptr) {
    wire.add_flags(*flag);
  } else {
    wire.add_integers(std::get<std::int64_t>(value));
  }
}

}  // namespace

void ToWire(const FilterArguments& arguments,
            google::protobuf::Map<std::string, v1::FilterValues>* wire) {
  for (const auto& [name, values] : arguments) {
    for (const FilterValue& value : values) AddValue(value, (*wire)[name]);
  }
}

void ToWire(const Probe& probe, v1::Probe* wire) {
  wire->set_queries(Utf8(probe.queries));
  wire->set_groundtruth(Utf8(probe.groundtruth));
  wire->set_k(probe.k);
  wire->set_recall(probe.recall);
  const auto p99 = std::chrono::ceil<std::chrono::microseconds>(probe.p99);
  wire->set_p99_us(static_cast<std::uint64_t>(p99.count()));
}

namespace {

CollectionFacts FromWire(const v1::Collection& wire) {
  CollectionFacts facts;
  facts.sequence = wire.sequence();
  facts.covered = wire.covered();
  facts.delta_rows = wire.delta_rows();
  facts.delta_bytes = wire.delta_bytes();
  facts.dead_rows = wire.dead_rows();
  facts.journal_bytes = wire.journal_bytes();
  facts.unmerged_seconds = wire.unmerged_seconds();
  facts.merges = wire.merges();
  facts.merge_seconds = wire.merge_seconds();
  facts.merging_seconds = wire.merging_seconds();
  facts.merge_phase = wire.merge_phase();
  facts.merge_done = wire.merge_done();
  facts.merge_total = wire.merge_total();
  facts.last_error = wire.last_error();
  if (wire.has_behind_seconds()) facts.behind_seconds = wire.behind_seconds();
  return facts;
}

}  // namespace

absl::StatusOr<IndexDescription> FromWire(const v1::DescribeResponse& wire) {
  IndexDescription out;
  const v1::IndexInfo& info = wire.info();
  const std::optional<DType> dtype = hmann::FromWire(info.dtype());
  const std::optional<Metric> metric = hmann::FromWire(info.metric());
  if (!dtype.has_value() || !metric.has_value()) {
    return Unimplemented("index '", wire.index(), "': its vectors are of a ",
                         dtype.has_value() ? "metric" : "type", " that this client does not know");
  }
  out.name = wire.index();
  out.n = info.n();
  out.dim = info.dim();
  out.dtype = *dtype;
  out.metric = *metric;
  out.m = info.m();
  out.ef_construction = info.ef_construction();
  for (const v1::LayerInfo& layer : info.layers())
    out.layers.push_back({layer.nodes(), layer.max_degree(), layer.mean_degree()});
  out.promote = info.promote();
  for (const v1::StructureBytes& structure : info.bytes()) {
    out.bytes.push_back(
        {structure.name(), structure.tier(), structure.bytes(), structure.formula()});
  }
  out.content_hash = info.content_hash();
  out.seed = info.seed();
  out.version = info.version();
  out.file_bytes = info.file_bytes();
  out.user_labels = info.user_labels();
  out.alpha = info.alpha();
  if (info.bits() > 0)
    out.codes = {info.bits(), info.replicas(), CodeBytes(info.dim(), info.bits())};
  for (const v1::Placement& placement : wire.placements()) {
    out.placements.push_back(
        {placement.structure(), placement.tier(), placement.where(), placement.bytes()});
  }
  out.simd = wire.simd();
  out.threads = wire.threads();
  out.generation = wire.generation();
  const v1::Limits& limits = wire.limits();
  out.limits = {limits.max_batch(),
                limits.max_k(),
                limits.max_ef(),
                limits.max_query_threads(),
                limits.max_request_bytes(),
                limits.max_reply_bytes()};
  if (wire.has_collection()) out.collection = FromWire(wire.collection());
  return out;
}

IndexSummary FromWire(const v1::IndexSummary& wire) {
  return {wire.name(),
          FromWire(wire.state()),
          wire.reason(),
          wire.n(),
          wire.dim(),
          hmann::FromWire(wire.dtype()),
          hmann::FromWire(wire.metric()),
          wire.generation()};
}

IndexStatus FromWire(const v1::IndexStatus& wire) {
  IndexStatus out;
  static_cast<IndexSummary&>(out) = FromWire(wire.summary());
  out.path = wire.path();
  out.content_hash = wire.content_hash();
  out.load_seconds = wire.load_seconds();
  out.swaps = wire.swaps();
  out.refused_loads = wire.refused_loads();
  out.refusal = wire.refusal();
  if (wire.has_loading()) {
    const v1::Loading& loading = wire.loading();
    out.loading = {loading.path(), loading.phase(), loading.unit(), loading.seconds(),
                   loading.done(), loading.total(), loading.share()};
  }
  if (wire.has_collection()) out.collection = FromWire(wire.collection());
  return out;
}

absl::Status NameFault(const absl::Status& status, const std::string& address, bool tls) {
  const absl::string_view report = status.message();
  if (!absl::IsUnavailable(status) ||
      !(absl::StartsWith(report, "failed to connect to all addresses") ||
        absl::StartsWith(report, "DNS resolution failed"))) {
    return status;
  }
  const std::size_t colon = report.rfind(": ");
  const absl::string_view cause =
      colon == absl::string_view::npos ? report : report.substr(colon + 2);
  // What gRPC reports, and what it means; client/python/hmann/_status.py has the same.
  static constexpr std::pair<absl::string_view, absl::string_view> kFaults[] = {
      {"certificate verify failed",
       "the server's certificate has expired, or is of no authority that this client trusts "
       "(--ca)"},
      {"is not in peer certificate",
       "the server's certificate is for other names than this address"},
      {"wrong version number", "the server does not use TLS: leave out --ca, --cert and --tls"},
      {"Trying to connect an http1.x server", "what listens there is no gRPC server"},
      {"Failed parsing HTTP/2", "what listens there is no gRPC server"},
      {"DNS resolution failed", "the name cannot be resolved"},
      {"Connection refused", "no server listens there: does `hmann serve` run?"},
      {"No such file or directory", "no server listens there: does `hmann serve` run?"},
      {"ocket closed", ""},
      {"onnection reset", ""}};
  for (auto [mark, meaning] : kFaults) {
    if (!absl::StrContains(report, mark)) continue;
    if (meaning.empty())
      meaning = tls ? "the server closed it; it may require a certificate of this client (--cert)"
                    : "the server closed it; it may require TLS (--ca or --tls)";
    return Unavailable("no connection to ", address, ": ", meaning, " (", cause, ")");
  }
  return Unavailable("no connection to ", address, ": ", cause);
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status details;
  std::vector<std::string> extras;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      if (std::string text = Describe(detail); !text.empty()) extras.push_back(std::move(text));
    }
  }
  // Reasons, in capitals, come first; details have no order.
  std::sort(extras.begin(), extras.end());
  std::string message = status.error_message();
  if (!extras.empty()) absl::StrAppend(&message, " [", absl::StrJoin(extras, "; "), "]");
  absl::Status out(static_cast<absl::StatusCode>(status.error_code()), message);
  for (const google::protobuf::Any& detail : details.details())
    out.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  return out;
}

}  // namespace hmann::client
