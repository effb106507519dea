/// Converts between the wire format and the core. Parameters and counters are in
/// proto/wire.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hmann/hmann.h"
#include "hmann/v1/search.pb.h"
#include "proto/wire.h"
#include "server/core/query.h"

namespace hmann::server {

/// `needs_count`: nothing else in the request says how many vectors `raw` has. Errors:
/// INVALID_ARGUMENT naming `field` when there are no vectors, or others than `count`;
/// those of VectorsOf.
absl::StatusOr<QueryVectors> ReadVectors(const v1::Vectors& vectors, const IndexInfo& info,
                                         std::uint64_t most, absl::string_view field,
                                         bool needs_count = false);

FilterArguments ReadArguments(const google::protobuf::Map<std::string, v1::FilterValues>& wire);

/// Errors: INVALID_ARGUMENT naming the field; those of ResolveFor.
absl::StatusOr<RequestParams> ReadParams(const v1::SearchParams& wire, const Snapshot& index,
                                         const RequestLimits& limits);

/// Reads and checks a whole request. Errors: those of Registry::Get, ReadParams,
/// ReadVectors and CheckReplySize.
absl::StatusOr<Query> ReadQuery(const Registry& registry, const RequestLimits& limits,
                                const std::string& name, const v1::Vectors& vectors,
                                std::uint64_t most, absl::string_view field,
                                const v1::SearchParams& options);

/// Reports what answered.
template <typename Response>
void SetVersion(const Snapshot& index, Response* response) {
  response->set_generation(index.generation().number());
  if (index.moment() != nullptr) response->set_sequence(SequenceOf(*index.moment()));
}
/// Sets the strings that ids of a collection stand for, if any does. (A name that cannot
/// be read leaves its number.)
template <typename Response>
void SetNames(const Snapshot& index, Response* response) {
  const std::span<const std::uint64_t> ids(response->ids().data(),
                                           static_cast<std::size_t>(response->ids_size()));
  if (index.moment() == nullptr ||
      std::none_of(ids.begin(), ids.end(), [](std::uint64_t id) { return id >> 63 != 0; }))
    return;
  const auto names = index.generation().collection()->Names(ids);
  if (!names.ok()) return;
  response->mutable_names()->Assign(names->begin(), names->end());
}
/// Reports what answered, the parameters that actually ran, the number of matches, and
/// the recall and latency predicted for them.
template <typename Response>
void ReportParams(const Snapshot& index, const RequestParams& options, Response* response) {
  const ResolvedSearch& search = options.search;
  SetVersion(index, response);
  SetNames(index, response);
  ToWire(search.params, response->mutable_params());
  if (options.matching.has_value()) response->set_matches(*options.matching);
  if (search.tuned.has_value()) {
    response->mutable_predicted()->set_recall(search.tuned->recall);
    response->mutable_predicted()->set_mean_us(search.tuned->mean_us);
  } else if (search.calibrated_recall.has_value()) {
    response->mutable_predicted()->set_recall(*search.calibrated_recall);
  }
  if (response->has_predicted())
    response->mutable_predicted()->set_predicted_for(search.predicted_for);
}
/// Writes the answer to one query: ids, distances, and how the search ended.
void ToWire(const Answer& answer, v1::SearchResponse* response);
void ToWire(const IndexInfo& info, v1::IndexInfo* wire);
void Summarize(ServedIndex& served, v1::IndexSummary* summary);
/// Describes the collection of a snapshot.
void DescribeCollection(const Snapshot& index, v1::Collection* wire);

/// The largest size in bytes of a request that holds max_batch vectors of `dim` floats,
/// or what is allowed where `account` bytes may be taken by all requests.
std::uint64_t MaxRequestBytes(std::uint32_t dim, const RequestLimits& limits,
                              std::uint64_t account);

}  // namespace hmann::server
