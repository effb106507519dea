#include "server/convert.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "proto/wire.h"
#include "server/core/errors.h"

namespace hmann::server {

static_assert(std::endian::native == std::endian::little,
              "vectors on the wire are little-endian and used as they are");

absl::StatusOr<QueryVectors> ReadVectors(const v1::Vectors& vectors, const IndexInfo& info,
                                         std::uint64_t most, absl::string_view field,
                                         bool needs_count) {
  switch (vectors.data_case()) {
    case v1::Vectors::kRaw: {
      HMANN_ASSIGN_OR_RETURN(QueryVectors read,
                             VectorsOf(std::as_bytes(std::span(vectors.raw())), info, most, field));
      if (read.count == vectors.count() || (vectors.count() == 0 && !needs_count)) return read;
      return BadField(absl::StrCat(field, ".count"),
                      absl::StrCat("expected the number of vectors in `raw`, ", read.count, " of ",
                                   info.dim, " x ", std::string(Name(QueryType(info.dtype))),
                                   ", found ", vectors.count()));
    }
    case v1::Vectors::kFloats:
      return VectorsOf({vectors.floats().values().data(),
                        static_cast<std::size_t>(vectors.floats().values_size())},
                       info, most, field);
    case v1::Vectors::DATA_NOT_SET:
      break;
  }
  return BadField(field, "expected `raw` or `floats`, found neither");
}

FilterArguments ReadArguments(const google::protobuf::Map<std::string, v1::FilterValues>& wire) {
  FilterArguments arguments;
  for (const auto& [name, values] : wire) {
    std::vector<FilterValue>& all = arguments[name];
    all.insert(all.end(), values.texts().begin(), values.texts().end());
    for (const std::int64_t value : values.integers()) all.emplace_back(value);
    for (const double value : values.numbers()) all.emplace_back(value);
    for (const bool value : values.flags()) all.emplace_back(value);
  }
  return arguments;
}

absl::StatusOr<RequestParams> ReadParams(const v1::SearchParams& wire, const Snapshot& index,
                                         const RequestLimits& limits) {
  absl::StatusOr<SearchParams> requested = ParamsFromWire(wire);
  if (!requested.ok()) return BadOption(requested.status());
  std::optional<Filter> filter;
  if (!wire.has_filter() && !wire.filter_arguments().empty())
    return BadField("options.filter_arguments", "expected a filter that names them, found none");
  if (wire.has_filter()) {
    absl::StatusOr<Filter> parsed =
        Filter::Parse(wire.filter(), ReadArguments(wire.filter_arguments()));
    if (!parsed.ok()) return BadOption(parsed.status());
    filter = *std::move(parsed);
  }
  HMANN_ASSIGN_OR_RETURN(
      RequestParams options,
      ResolveFor(index, *requested, filter.has_value() ? &*filter : nullptr, limits));
  options.counters = wire.counters();
  return options;
}

absl::StatusOr<Query> ReadQuery(const Registry& registry, const RequestLimits& limits,
                                const std::string& name, const v1::Vectors& vectors,
                                std::uint64_t most, absl::string_view field,
                                const v1::SearchParams& options) {
  Query query;
  HMANN_ASSIGN_OR_RETURN(query.index, registry.Get(name));
  HMANN_ASSIGN_OR_RETURN(query.options, ReadParams(options, query.index, limits));
  HMANN_ASSIGN_OR_RETURN(query.vectors,
                         ReadVectors(vectors, query.index.info(), most, field, most > 1));
  HMANN_RETURN_IF_ERROR(CheckReplySize(query.vectors.count, query.options.search.params.k, limits));
  return query;
}

void ToWire(const Answer& answer, v1::SearchResponse* response) {
  response->mutable_ids()->Reserve(static_cast<int>(answer.nearest.size()));
  response->mutable_distances()->Reserve(static_cast<int>(answer.nearest.size()));
  for (const Neighbor& neighbor : answer.nearest) {
    response->mutable_ids()->AddAlreadyReserved(neighbor.label);
    response->mutable_distances()->AddAlreadyReserved(neighbor.distance);
  }
  response->set_cut_short(answer.cut_short);
}

void ToWire(const IndexInfo& info, v1::IndexInfo* wire) {
  wire->set_n(info.n);
  wire->set_dim(info.dim);
  wire->set_dtype(ToWire(info.dtype));
  wire->set_metric(ToWire(info.metric));
  wire->set_m(info.m);
  wire->set_ef_construction(info.ef_construction);
  for (const LayerInfo& layer : info.layers) {
    v1::LayerInfo* out = wire->add_layers();
    out->set_nodes(layer.nodes);
    out->set_max_degree(layer.max_degree);
    out->set_mean_degree(layer.mean_degree);
  }
  wire->set_promote(info.promote);
  for (const StructureBytes& structure : info.bytes) {
    v1::StructureBytes* out = wire->add_bytes();
    out->set_name(structure.name);
    out->set_tier(structure.tier);
    out->set_bytes(structure.bytes);
    out->set_formula(structure.formula);
  }
  wire->set_content_hash(info.content_hash);
  wire->set_seed(info.seed);
  wire->set_version(info.version);
  wire->set_file_bytes(info.file_bytes);
  wire->set_user_labels(info.user_labels);
  wire->set_alpha(info.alpha);
  if (info.codes.bits == 0) return;
  wire->set_bits(info.codes.bits);
  wire->set_replicas(info.codes.replicas);
}

std::uint64_t MaxRequestBytes(std::uint32_t dim, const RequestLimits& limits,
                              std::uint64_t account) {
  constexpr std::uint64_t kRest = 64 << 10;        // name, options, framing
  constexpr std::uint64_t kLeast = 4 << 20;        // gRPC's own default
  constexpr std::uint64_t kMost = (1u << 31) - 1;  // gRPC's type is int
  constexpr std::uint64_t kAtOnce = 8;             // so that a few fit: a guess
  return std::clamp(std::uint64_t{limits.max_batch} * dim * sizeof(float) + kRest, kLeast,
                    std::clamp(account / kAtOnce, kLeast, kMost));
}

}  // namespace hmann::server
