/// Converts between the client's types and the wire (parameters, counters, types:
/// proto/wire.h). Internal to the client.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/status.h"
#include "hmann/client.h"
#include "hmann/v1/admin.pb.h"
#include "hmann/v1/search.pb.h"

namespace hmann::client {

void ToWire(const Vectors& vectors, v1::Vectors* wire);
void ToWire(const Probe& probe, v1::Probe* wire);
void ToWire(const FilterArguments& arguments,
            google::protobuf::Map<std::string, v1::FilterValues>* wire);

absl::StatusOr<IndexDescription> FromWire(const v1::DescribeResponse& wire);
IndexSummary FromWire(const v1::IndexSummary& wire);
IndexStatus FromWire(const v1::IndexStatus& wire);

/// Keeps the code. The details follow the message in brackets and are attached as
/// payloads.
absl::Status FromGrpc(const grpc::Status& status);

/// Says why there is no connection to `address`, if that is the error of a call: "no
/// connection to ADDRESS: the name cannot be resolved (...)". `tls`: of this client.
absl::Status NameFault(const absl::Status& status, const std::string& address, bool tls);

}  // namespace hmann::client
