#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"

namespace hmann::server {

/// Parses the bytes of a request as a message. Errors: INVALID_ARGUMENT when they do not
/// parse. (gRPC itself would answer UNIMPLEMENTED with an empty message.)
absl::Status Read(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);

/// Serializes `message` as the bytes of a reply.
absl::Status Write(const google::protobuf::MessageLite& message, grpc::ByteBuffer* reply);

}  // namespace hmann::server
