#pragma once

#include <functional>
#include <memory>

#include "server/calls/calls.h"

namespace hmann::server {

/// The message of a stream for the outcome of a request: its reply, or an error.
using WrapReply =
    std::function<grpc::ByteBuffer(const absl::Status& status, const grpc::ByteBuffer& reply)>;

/// A stream whose messages are requests of a method with one reply, which `begin` begins.
/// Each is answered as a call of its own would be, in any order; an error is the answer
/// to its message only. `calls` outlives it.
std::shared_ptr<StreamCall> MakeStreamOfCalls(Calls* calls, Method method, Calls::Begin begin,
                                              WrapReply wrap, grpc::CallbackServerContext* context,
                                              Access access);

}  // namespace hmann::server
