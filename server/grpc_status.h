#pragma once

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"

namespace hmann::server {

/// Converts code, message and details (core/errors.h). The details become google.rpc
/// messages in grpc-status-details-bin: ErrorInfo, RetryInfo, BadRequest, ResourceInfo.
grpc::Status ToGrpc(const absl::Status& status);

/// Ends a call immediately with `status`.
grpc::ServerUnaryReactor* Reply(grpc::CallbackServerContext* context, const absl::Status& status);

}  // namespace hmann::server
