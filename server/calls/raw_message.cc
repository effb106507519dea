#include "server/calls/raw_message.h"

#include "absl/strings/str_cat.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "index/base/errors.h"
#include "server/core/errors.h"

namespace hmann::server {

absl::Status Read(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  grpc::ByteBuffer read = bytes;  // reference-counted, not copied
  if (grpc::SerializationTraits<google::protobuf::MessageLite>::Deserialize(&read, message).ok())
    return absl::OkStatus();
  return BadField("request", absl::StrCat("expected a ", message->GetTypeName(), ", found ",
                                          bytes.Length(), " bytes that are none"));
}

absl::Status Write(const google::protobuf::MessageLite& message, grpc::ByteBuffer* reply) {
  bool own = false;
  const grpc::Status status =
      grpc::SerializationTraits<google::protobuf::MessageLite>::Serialize(message, reply, &own);
  return status.ok() ? absl::OkStatus() : Internal(status.error_message());
}

}  // namespace hmann::server
