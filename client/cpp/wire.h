/// Between what the client shows and the wire (dials, counters, types: proto/wire.h).
/// Internal to the client.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/status.h"
#include "hmann/client.h"
#include "hmann/v1/search.pb.h"

namespace hmann::client {

void ToWire(const Vectors& vectors, v1::Vectors* wire);

absl::StatusOr<IndexDescription> FromWire(const v1::DescribeResponse& wire);
IndexSummary FromWire(const v1::IndexSummary& wire);

/// The code unchanged; details in brackets behind the message and as payloads.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace hmann::client
