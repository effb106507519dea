#pragma once

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"

namespace hmann::server {

/// Code, message and details (core/errors.h), the latter as google.rpc messages in
/// grpc-status-details-bin: ErrorInfo, RetryInfo, BadRequest, ResourceInfo.
grpc::Status ToGrpc(const absl::Status& status);

/// Ends a call at once.
grpc::ServerUnaryReactor* Reply(grpc::CallbackServerContext* context, const absl::Status& status);

}  // namespace hmann::server
