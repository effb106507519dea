/// Between the wire and the core (dials and counters: proto/wire.h).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hmann/hmann.h"
#include "hmann/v1/search.pb.h"
#include "proto/wire.h"
#include "server/core/query.h"

namespace hmann::server {

/// Errors: INVALID_ARGUMENT naming `field`, when there are none; those of VectorsOf.
absl::StatusOr<QueryVectors> ReadVectors(const v1::Vectors& vectors, const IndexInfo& info,
                                         std::uint64_t most, absl::string_view field);

/// Errors: INVALID_ARGUMENT naming the field; those of ResolveFor.
absl::StatusOr<RequestOptions> ReadOptions(const v1::SearchOptions& wire, const Snapshot& index,
                                           const RequestLimits& limits);

/// Reads and checks all of a request. Errors: those of Registry::Get, ReadOptions,
/// ReadVectors and CheckReplySize.
absl::StatusOr<Query> ReadQuery(const Registry& registry, const RequestLimits& limits,
                                const std::string& name, const v1::Vectors& vectors,
                                std::uint64_t most, absl::string_view field,
                                const v1::SearchOptions& options);

/// What really ran, and what is to be expected of it.
template <typename Response>
void TellDials(const ResolvedSearch& search, Response* response) {
  ToWire(search.dials, response->mutable_dials());
  if (search.tuned.has_value()) {
    response->mutable_predicted()->set_recall(search.tuned->recall);
    response->mutable_predicted()->set_mean_us(search.tuned->mean_us);
  } else if (search.calibrated_recall.has_value()) {
    response->mutable_predicted()->set_recall(*search.calibrated_recall);
  }
}
/// Of one query: ids and distances, and its end.
void ToWire(const Answer& answer, v1::SearchResponse* response);
void ToWire(const IndexInfo& info, v1::IndexInfo* wire);

/// Bytes that a request of max_batch vectors of `dim` floats may take.
std::uint64_t MaxRequestBytes(std::uint32_t dim, const RequestLimits& limits);

}  // namespace hmann::server
