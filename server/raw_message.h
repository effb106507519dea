#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"

namespace hmann::server {

/// The bytes of a request as a message. Errors: INVALID_ARGUMENT when they are none.
/// (gRPC's own answer to that is UNIMPLEMENTED, without a word.)
absl::Status Read(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);

/// `message` as the bytes of a reply.
absl::Status Write(const google::protobuf::MessageLite& message, grpc::ByteBuffer* reply);

}  // namespace hmann::server
