#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"

namespace hmann::server {

/// Converts code, message and details (core/errors.h). The details become google.rpc
/// messages in grpc-status-details-bin: ErrorInfo, RetryInfo, BadRequest, ResourceInfo.
grpc::Status ToGrpc(const absl::Status& status);

/// The same as the end of a call. It also tells clients with a retry policy when to try
/// again (grpc-retry-pushback-ms): after the delay of the error, or never if it has none
/// and the server is not at fault.
grpc::Status EndOf(const absl::Status& status, grpc::CallbackServerContext* context);

/// The deadline of a call, at most a year ahead; max: none. gRPC's own conversion wraps
/// to the past beyond the year 2262.
std::chrono::system_clock::time_point CallDeadline(const grpc::CallbackServerContext& context);

/// Ends a call immediately with `status`.
grpc::ServerUnaryReactor* Reply(grpc::CallbackServerContext* context, const absl::Status& status);

}  // namespace hmann::server
