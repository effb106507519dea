/// The limits that gRPC itself can enforce.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/connections/options.h"

namespace hmann::server {

void Bound(const ConnectionLimits& limits, grpc::ServerBuilder* builder);

/// Starts the server. Also returns its number in channelz, where its connections are
/// counted.
std::pair<std::unique_ptr<grpc::Server>, std::int64_t> StartNumbered(grpc::ServerBuilder& builder);

}  // namespace hmann::server
