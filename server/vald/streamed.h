#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"

namespace hmann::server {

/// A message of one of Vald's streams: the reply to a request, or an error. (Its messages
/// differ in name only.)
grpc::ByteBuffer ValdStreamed(const absl::Status& status, const grpc::ByteBuffer& reply);

}  // namespace hmann::server
