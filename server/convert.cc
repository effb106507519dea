#include "server/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "proto/wire.h"
#include "server/errors.h"

namespace hmann {
namespace {

static_assert(std::endian::native == std::endian::little,
              "vectors on the wire are little-endian and used as they are");

constexpr std::uint64_t kBytesPerId = 12;  // fixed64 id, float distance

absl::Status CheckComponents(std::uint64_t components, const char* what, const IndexInfo& info,
                             std::uint64_t most, absl::string_view field) {
  const std::uint64_t count = components / info.dim;
  if (components == 0 || components % info.dim != 0 || (most == 1 && count != 1)) {
    return BadField(field, absl::StrCat("expected ", most == 1 ? "" : "a multiple of ", info.dim,
                                        " ", what, " (the index's dimension), found ", components));
  }
  if (count > most)
    return BadField(field, absl::StrCat("expected at most ", most, " vectors, found ", count));
  return absl::OkStatus();
}

/// Floats to integers of type T, none of which may be rounded or cut.
template <typename T>
absl::Status Narrow(std::span<const float> floats, std::uint32_t dim, absl::string_view field,
                    std::vector<std::byte>* out) {
  out->resize(floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const float value = floats[i];
    if (!(value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max()) ||
        value != std::floor(value)) {
      return BadField(
          field, absl::StrCat("vector ", i / dim, ", component ", i % dim,
                              ": expected a whole number from ", int{std::numeric_limits<T>::min()},
                              " to ", int{std::numeric_limits<T>::max()}, ", found ", value));
    }
    (*out)[i] = static_cast<std::byte>(static_cast<T>(value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<QueryVectors> ReadVectors(const v1::Vectors& vectors, const IndexInfo& info,
                                         std::uint64_t most, absl::string_view field) {
  QueryVectors out;
  switch (vectors.data_case()) {
    case v1::Vectors::kRaw: {
      const std::size_t component = SizeOf(QueryType(info.dtype));
      if (vectors.raw().size() % component != 0) {
        return BadField(field, absl::StrCat("expected whole components of ", component,
                                            " bytes, found ", vectors.raw().size(), " bytes"));
      }
      const std::uint64_t components = vectors.raw().size() / component;
      const std::string what =
          absl::StrCat("components of ", component, component == 1 ? " byte" : " bytes");
      HMANN_RETURN_IF_ERROR(CheckComponents(components, what.c_str(), info, most, field));
      out.count = components / info.dim;
      out.bytes = std::as_bytes(std::span(vectors.raw()));
      return out;
    }
    case v1::Vectors::kFloats: {
      const std::span<const float> floats(vectors.floats().values().data(),
                                          static_cast<std::size_t>(vectors.floats().values_size()));
      HMANN_RETURN_IF_ERROR(CheckComponents(floats.size(), "floats", info, most, field));
      out.count = floats.size() / info.dim;
      if (QueryType(info.dtype) == DType::kF32) {
        out.bytes = std::as_bytes(floats);
        return out;
      }
      HMANN_RETURN_IF_ERROR(info.dtype == DType::kU8
                                ? Narrow<std::uint8_t>(floats, info.dim, field, &out.converted)
                                : Narrow<std::int8_t>(floats, info.dim, field, &out.converted));
      out.bytes = out.converted;
      return out;
    }
    case v1::Vectors::DATA_NOT_SET:
      break;
  }
  return BadField(field, "expected `raw` or `floats`, found neither");
}

namespace {

absl::Status CheckLimits(const v1::SearchOptions& wire, const RequestLimits& limits) {
  const auto above = [](const char* field, std::uint64_t most, std::uint64_t found) {
    return BadField(field, absl::StrCat("expected at most ", most, ", found ", found));
  };
  if (wire.k() > limits.max_k) return above("options.k", limits.max_k, wire.k());
  if (wire.ef_l1() > limits.max_ef) return above("options.ef_l1", limits.max_ef, wire.ef_l1());
  if (wire.ef_l0() > limits.max_ef) return above("options.ef_l0", limits.max_ef, wire.ef_l0());
  if (wire.nprobe() > limits.max_ef) return above("options.nprobe", limits.max_ef, wire.nprobe());
  if (wire.query_threads() > limits.max_query_threads)
    return above("options.query_threads", limits.max_query_threads, wire.query_threads());
  return absl::OkStatus();
}

/// What the engine says of options, as the error of a request. Its messages begin with
/// their field: "k: expected ...".
absl::Status OfRequest(const absl::Status& status, const SearchOptions& options) {
  const absl::string_view message = status.message();
  if (options.has_target() && absl::IsOutOfRange(status)) {
    return BadField(options.recall.has_value() ? "options.recall" : "options.latency_us", message);
  }
  if (options.has_target() && !absl::IsInvalidArgument(status)) return NotTuned(status);
  const std::size_t colon = message.find(": ");
  if (colon == absl::string_view::npos) return BadField("options", message);
  return BadField(absl::StrCat("options.", message.substr(0, colon)), message.substr(colon + 2));
}

}  // namespace

absl::StatusOr<RequestOptions> ReadOptions(const v1::SearchOptions& wire, const Index& index,
                                           const RequestLimits& limits) {
  HMANN_RETURN_IF_ERROR(CheckLimits(wire, limits));
  const absl::StatusOr<SearchOptions> options = OptionsFromWire(wire);
  if (!options.ok()) return OfRequest(options.status(), {});
  absl::StatusOr<ResolvedSearch> search = index.Resolve(*options);
  if (!search.ok()) return OfRequest(search.status(), *options);
  return RequestOptions{*std::move(search), options->budget.value_or(std::chrono::nanoseconds(0))};
}

std::uint64_t ReplyBytes(std::uint64_t queries, std::uint32_t k) {
  return queries * k * kBytesPerId;
}

absl::Status CheckReplySize(std::uint64_t queries, std::uint32_t k, const RequestLimits& limits) {
  const std::uint64_t bytes = ReplyBytes(queries, k);
  if (bytes <= limits.max_reply_bytes) return absl::OkStatus();
  return ReplyTooLarge("options.k", bytes, limits.max_reply_bytes,
                       "ask for fewer neighbours or send fewer queries at once");
}

absl::StatusOr<std::uint64_t> CheckGet(const v1::GetRequest& request, const IndexInfo& info,
                                       const RequestLimits& limits) {
  const auto labels = static_cast<std::uint64_t>(request.labels_size());
  if (labels == 0) return BadField("labels", "expected one or more, found none");
  if (labels > limits.max_batch) {
    return BadField("labels",
                    absl::StrCat("expected at most ", limits.max_batch, ", found ", labels));
  }
  const std::uint64_t vector_bytes = info.dim * SizeOf(info.dtype);
  if (labels * vector_bytes > limits.max_reply_bytes) {
    return ReplyTooLarge("labels", labels * vector_bytes, limits.max_reply_bytes,
                         "ask for fewer vectors at once");
  }
  return vector_bytes;
}

std::optional<v1::Prediction> PredictionOf(const ResolvedSearch& search) {
  if (!search.tuned.has_value() && !search.calibrated_recall.has_value()) return std::nullopt;
  v1::Prediction predicted;
  if (search.tuned.has_value()) {
    predicted.set_recall(search.tuned->recall);
    predicted.set_mean_us(search.tuned->mean_us);
  } else {
    predicted.set_recall(*search.calibrated_recall);
  }
  return predicted;
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

std::uint64_t MaxRequestBytes(std::uint32_t dim, const RequestLimits& limits) {
  constexpr std::uint64_t kRest = 64 << 10;        // name, options, framing
  constexpr std::uint64_t kLeast = 4 << 20;        // gRPC's own default
  constexpr std::uint64_t kMost = (1u << 31) - 1;  // gRPC's type is int
  return std::clamp(std::uint64_t{limits.max_batch} * dim * sizeof(float) + kRest, kLeast, kMost);
}

}  // namespace hmann
