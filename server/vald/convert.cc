#include "server/vald/convert.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/distance/half.h"
#include "server/core/errors.h"

namespace hmann::server {
namespace {

/// Numbers from here on stand for strings in a collection.
constexpr std::uint64_t kStrings = std::uint64_t{1} << 63;
/// No call lasts longer; a later time might not fit the clock.
constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);

absl::Status CheckConfig(const ::payload::v1::Search_Config& config, std::size_t i,
                         std::size_t queries, const RequestLimits& limits) {
  const auto bad = [&](const char* field, const auto&... words) {
    return BadField(FieldOf(field, i, queries), absl::StrCat("expected ", words...));
  };
  if (config.num() == 0 || config.num() > limits.max_k)
    return bad("config.num", "1 to ", limits.max_k, ", found ", config.num());
  if (std::isnan(config.radius())) return bad("config.radius", "a number, found NaN");
  if (config.timeout() < 0)
    return bad("config.timeout", "nanoseconds, or 0 for the default, found ", config.timeout());
  if (config.edge_size() > 0 && static_cast<std::uint32_t>(config.edge_size()) > limits.max_ef)
    return bad("config.edge_size", "at most ", limits.max_ef, ", found ", config.edge_size());
  return absl::OkStatus();
}

template <typename T>
void Append(const std::byte* row, std::uint32_t dim,
            google::protobuf::RepeatedField<float>* floats) {
  for (std::uint32_t i = 0; i < dim; ++i) {
    T component;
    std::memcpy(&component, row + i * sizeof(T), sizeof(T));
    floats->Add(static_cast<float>(component));
  }
}

}  // namespace

absl::StatusOr<VectorLabel> LabelOf(const std::string& id, const Snapshot& index) {
  if (id.empty()) return BadField("id", "expected one, found an empty string");
  std::uint64_t number = 0;
  if (absl::SimpleAtoi(id, &number) && absl::StrCat(number) == id &&
      (number < kStrings || index.moment() == nullptr))
    return VectorLabel(number);
  if (index.moment() != nullptr) return VectorLabel(id);
  return UnknownLabel(absl::NotFoundError(absl::StrCat(
      "label ", Echo(id), ": no vector of the index has it: its ids are decimal numbers")));
}

absl::StatusOr<Asked> ReadConfigs(const Serving& serving, Configs configs) {
  Asked asked;
  SearchParams params;
  params.k = 0;
  std::uint32_t edges = 0;
  if (configs.empty()) return BadField("requests", "expected one or more, found none");
  if (configs.size() > serving.limits.max_batch) {
    return BadField("requests", absl::StrCat("expected at most ", serving.limits.max_batch,
                                             ", found ", configs.size()));
  }
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const ::payload::v1::Search_Config& config = *configs[i];
    HMANN_RETURN_IF_ERROR(CheckConfig(config, i, configs.size(), serving.limits));
    asked.cuts.push_back({config.num(), config.min_num(), config.radius(), config.request_id()});
    params.k = std::max(params.k, config.num());
    edges = std::max(edges, static_cast<std::uint32_t>(std::max(config.edge_size(), 0)));
    const auto timeout = std::min(std::chrono::nanoseconds(config.timeout()), kLongest);
    if (timeout.count() > 0 && (asked.timeout.count() == 0 || timeout < asked.timeout))
      asked.timeout = timeout;
  }
  HMANN_ASSIGN_OR_RETURN(asked.query.index, serving.registry.Get(serving.nameless));
  // A shard may have fewer vectors than a search of all shards wants.
  const auto rows =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(asked.query.index.rows(), 1));
  params.k = std::min(params.k, rows);
  if (edges > 0) params.ef_l0 = std::max(edges, params.k);
  if (asked.timeout.count() > 0) params.budget = asked.timeout;
  HMANN_ASSIGN_OR_RETURN(asked.query.options,
                         ResolveFor(asked.query.index, params, nullptr, serving.limits));
  return asked;
}

absl::Status ReadVectors(const Serving& serving, std::span<const std::span<const float>> floats,
                         Asked* asked) {
  const IndexInfo& info = asked->query.index.info();
  QueryVectors& vectors = asked->query.vectors;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    HMANN_ASSIGN_OR_RETURN(QueryVectors one,
                           VectorsOf(floats[i], info, 1, FieldOf("vector", i, floats.size())));
    if (floats.size() == 1) {
      vectors = std::move(one);
    } else {
      vectors.converted.insert(vectors.converted.end(), one.bytes.begin(), one.bytes.end());
    }
  }
  vectors.count = floats.size();
  if (floats.size() > 1) vectors.bytes = vectors.converted;
  return CheckReplySize(vectors.count, asked->query.options.search.params.k, serving.limits);
}

std::string FieldOf(const char* name, std::size_t i, std::size_t requests) {
  return requests == 1 ? name : absl::StrCat("requests[", i, "].", name);
}

CallFacts Within(CallFacts facts, std::chrono::nanoseconds timeout) {
  if (timeout.count() > 0) {
    facts.deadline =
        std::min(facts.deadline,
                 std::chrono::system_clock::now() +
                     std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
  }
  return facts;
}

bool ToWire(const Answer& answer, const Snapshot& index, const Cut& cut,
            ::payload::v1::Search_Response* response) {
  response->set_request_id(cut.request_id);
  const bool squared = index.info().metric == Metric::kL2;
  for (const Neighbor& neighbor : answer.nearest) {
    const float distance = squared ? std::sqrt(neighbor.distance) : neighbor.distance;
    if (static_cast<std::uint32_t>(response->results_size()) == cut.num ||
        (cut.radius > 0 && distance > cut.radius))
      break;
    ::payload::v1::Object_Distance* const result = response->add_results();
    result->set_id(IdOf(neighbor.label, index));
    result->set_distance(distance);
  }
  return static_cast<std::uint32_t>(response->results_size()) >= cut.min_num;
}

void AppendFloats(const std::byte* row, const IndexInfo& info,
                  google::protobuf::RepeatedField<float>* floats) {
  floats->Reserve(static_cast<int>(info.dim));
  switch (info.dtype) {
    case DType::kF32:
      return Append<float>(row, info.dim, floats);
    case DType::kF16:
      return Append<Half>(row, info.dim, floats);
    case DType::kU8:
      return Append<std::uint8_t>(row, info.dim, floats);
    case DType::kI8:
      return Append<std::int8_t>(row, info.dim, floats);
  }
}

std::string IdOf(std::uint64_t label, const Snapshot& index) {
  if (label >= kStrings && index.moment() != nullptr) {
    auto names = index.generation().collection()->Names({&label, 1});
    if (names.ok() && !names->front().empty()) return std::move(names->front());
  }
  return absl::StrCat(label);
}

}  // namespace hmann::server
